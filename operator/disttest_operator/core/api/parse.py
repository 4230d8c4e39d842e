"""A DistTest from the body of its object: strict, with every default filled in."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from disttest_contract.gang.plan import LOCAL_UID
from disttest_contract.results.thresholds import Threshold
from disttest_operator.core.api import cross_field_rules, schema, spec_schema, template
from disttest_operator.core.api.model import (
    API_VERSION,
    Artifacts,
    Backend,
    Concurrency,
    Defaults,
    DistTest,
    Placement,
    Quarantine,
    Retries,
    Spec,
    Suite,
    Timeouts,
)

NAME_LENGTH = 52  # leaves room for -a<attempt>-<node index> in the 63 characters of a host name
GENERATED_CHARACTERS = 5  # that the API server appends to generateName
NAME_ADVICE = (
    f"write a name of at most {NAME_LENGTH} lower-case letters, digits and '-', beginning with a letter"
    " and ending with a letter or digit"
)
GENERATE_NAME_ADVICE = (
    f"write at most {NAME_LENGTH - GENERATED_CHARACTERS} lower-case letters, digits and '-', beginning with a letter"
)

TOP_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA_FIELDS = (
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)


class InvalidSpecError(ValueError):
    """The object is not a DistTest that can be run; each problem says where, and what to write instead."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse(body: Mapping[str, Any], defaults: Defaults) -> DistTest:
    """Read an object of the API server, or a manifest that never saw one. Raises InvalidSpecError."""
    if isinstance(body, Mapping) and isinstance(body.get("spec"), Mapping):
        body = {**body, "spec": schema.normalise(body["spec"])}
    problems = tuple(_problems(body, defaults))
    if problems:
        raise InvalidSpecError(problems)
    metadata = body["metadata"]
    return DistTest(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name") or f"{metadata['generateName']}local",
        uid=metadata.get("uid", LOCAL_UID),
        generation=metadata.get("generation", 1),
        resource_version=metadata.get("resourceVersion", ""),
        created=_time(metadata.get("creationTimestamp")),
        is_deleting="deletionTimestamp" in metadata,
        spec=_spec(body["spec"], defaults),
        runner_image=defaults.image,
        status=body.get("status") or {},
    )


def _problems(body: Any, defaults: Defaults) -> Iterator[str]:
    if not isinstance(body, Mapping):
        yield "document: write a DistTest object: apiVersion, kind, metadata and spec"
        return
    for key in body:
        if key not in TOP_FIELDS:
            yield f"{key}: is unknown; {schema.nearest(str(key), TOP_FIELDS)}"
    metadata = body.get("metadata")
    # Objects in the lists of an API server carry neither apiVersion nor kind.
    is_from_server = isinstance(metadata, Mapping) and "uid" in metadata
    for key, expected in (("apiVersion", API_VERSION), ("kind", "DistTest")):
        if body.get(key) != expected and not (is_from_server and key not in body):
            yield f"{key}: write {expected}"
    yield from _metadata_problems(metadata)
    if body.get("spec") is None:
        yield "spec: is missing, write it"
        return
    problems = list(schema.check(spec_schema.SPEC, body["spec"], "spec"))
    yield from problems or cross_field_rules.check({"gpuResource": defaults.gpu_resource, **body["spec"]})


def _metadata_problems(metadata: Any) -> Iterator[str]:
    if not isinstance(metadata, Mapping):
        yield "metadata: write a mapping with name or generateName"
        return
    for key in metadata:
        if key not in METADATA_FIELDS:
            yield f"metadata.{key}: is unknown; {schema.nearest(str(key), METADATA_FIELDS)}"
    if "name" in metadata:
        name = metadata["name"]
        if not isinstance(name, str) or len(name) > NAME_LENGTH or not schema.matches(schema.DNS_1035, name):
            yield f"metadata.name: {NAME_ADVICE}"
    elif "generateName" in metadata:
        prefix = metadata["generateName"]
        room = NAME_LENGTH - GENERATED_CHARACTERS
        if not isinstance(prefix, str) or len(prefix) > room or not schema.matches(schema.DNS_1035, f"{prefix}x"):
            yield f"metadata.generateName: {GENERATE_NAME_ADVICE}"
    else:
        yield "metadata.name: is missing, write it, or generateName"
    namespace = metadata.get("namespace", "default")
    if not isinstance(namespace, str) or len(namespace) > 63 or not schema.matches(schema.DNS_LABEL, namespace):
        yield "metadata.namespace: write the name of a namespace: lower-case letters, digits and '-'"


def _spec(raw: Mapping[str, Any], defaults: Defaults) -> Spec:
    gpus = raw.get("gpusPerNode", 8)
    return Spec(
        series=raw.get("series", ""),
        suites=tuple(_suite(suite) for suite in raw["suites"]),
        nodes=raw.get("nodes", 1),
        gpus_per_node=gpus,
        ranks_per_node=raw.get("ranksPerNode") or gpus or spec_schema.RANKS_WITHOUT_GPUS,
        backend=Backend(raw.get("backend") or (Backend.NCCL if gpus else Backend.GLOO)),
        image=raw.get("image", defaults.image),
        gpu_resource=raw.get("gpuResource", defaults.gpu_resource),
        placement=Placement(raw.get("placement", Placement.SPREAD)),
        env=_env(raw),
        queue_name=raw.get("queueName", ""),
        timeouts=_timeouts(raw.get("timeouts", {}), defaults.timeouts),
        retries=_retries(raw.get("retries", {})),
        thresholds=tuple(_threshold(entry) for entry in raw.get("thresholds", ())),
        artifacts=Artifacts(persistent_volume_claim=raw.get("artifacts", {}).get("persistentVolumeClaim", "")),
        quarantine=Quarantine(config_map=raw.get("quarantine", {}).get("configMap", {}).get("name", "")),
        ttl_seconds_after_finished=raw.get("ttlSecondsAfterFinished"),
        concurrency_policy=Concurrency(raw.get("concurrencyPolicy", Concurrency.ALLOW)),
        suspend=raw.get("suspend", False),
        cancel=raw.get("cancel", False),
        template=template.read(raw.get("template", {})),
    )


def _suite(raw: Mapping[str, Any]) -> Suite:
    has_own_files = "configMap" in raw or "files" in raw
    return Suite(
        name=raw["name"],
        builtin="" if has_own_files else raw.get("builtin", raw["name"]),
        config_map=raw.get("configMap", {}).get("name", ""),
        files=tuple(raw.get("files", ())),
        select=raw.get("select", ""),
        env=_env(raw),
    )


def _env(raw: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((entry["name"], entry.get("value", "")) for entry in raw.get("env", ()))


def _timeouts(raw: Mapping[str, int], standard: Timeouts) -> Timeouts:
    """Of caseSeconds and runSeconds the one that is left out gives way: no case lasts longer than its run."""
    case_seconds, run_seconds = raw.get("caseSeconds"), raw.get("runSeconds")
    return Timeouts(
        queue_seconds=raw.get("queueSeconds", standard.queue_seconds),
        join_seconds=raw.get("joinSeconds", standard.join_seconds),
        case_seconds=case_seconds or min(standard.case_seconds, run_seconds or standard.run_seconds),
        run_seconds=run_seconds or max(standard.run_seconds, case_seconds or standard.case_seconds),
    )


def _retries(raw: Mapping[str, int]) -> Retries:
    standard = Retries()
    return Retries(
        flaky=raw.get("flaky", standard.flaky), infrastructure=raw.get("infrastructure", standard.infrastructure)
    )


def _threshold(raw: Mapping[str, Any]) -> Threshold:
    return Threshold(
        collective=raw["collective"],
        size_bytes=raw["sizeBytes"],
        min_bus_bandwidth_bytes_per_second=raw["minBusBandwidthBytesPerSecond"],
        dtype=raw.get("dtype", ""),
    )


def _time(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)
