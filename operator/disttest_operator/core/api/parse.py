"""Validate the JSON of a DistTest and read it, with all defaults."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from disttest_contract.gang.plan import LOCAL_UID
from disttest_contract.results.thresholds import Threshold
from disttest_operator.core.api import cross_field_rules, schema, template
from disttest_operator.core.api.model import (
    API_VERSION,
    RANKS_WITHOUT_GPUS,
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
)
from disttest_operator.core.api.spec_schema import SPEC

NAME_LENGTH = 52  # leaves room for -a<attempt>-<node index> in the 63 characters of a host name
GENERATED_CHARACTERS = 5  # appended to generateName by the API server
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
    """The object is not a valid DistTest. Each problem is a path and what to write there."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse(body: Mapping[str, Any], defaults: Defaults) -> DistTest:
    """Read an object of the API server, or a manifest that was not sent to one. Raises InvalidSpecError."""
    if not isinstance(body, Mapping):
        raise InvalidSpecError(("document: write a DistTest object: apiVersion, kind, metadata and spec",))
    problems = [*_object_problems(body)]
    spec: Any = body.get("spec")
    if isinstance(spec, Mapping):
        spec = schema.normalise(spec)
    if spec is None:
        problems.append("spec: is missing, write it")
    elif found := [*schema.check(SPEC, spec, "spec")]:
        problems += found
    else:
        spec = {"gpuResource": defaults.gpu_resource, **schema.add_defaults(SPEC, spec)}
        problems += cross_field_rules.check(spec)
    if problems:
        raise InvalidSpecError(tuple(problems))
    metadata = body["metadata"]
    return DistTest(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name") or f"{metadata['generateName']}local",
        uid=metadata.get("uid", LOCAL_UID),
        generation=metadata.get("generation", 1),
        resource_version=metadata.get("resourceVersion", ""),
        created=_time(metadata.get("creationTimestamp")),
        is_deleting="deletionTimestamp" in metadata,
        spec=_spec(spec, defaults),
        runner_image=defaults.image,
        status=body.get("status") or {},
    )


def _object_problems(body: Mapping[str, Any]) -> Iterator[str]:
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
    gpus = raw["gpusPerNode"]
    return Spec(
        series=raw.get("series", ""),
        suites=tuple(_suite(suite) for suite in raw["suites"]),
        nodes=raw["nodes"],
        gpus_per_node=gpus,
        ranks_per_node=raw.get("ranksPerNode") or gpus or RANKS_WITHOUT_GPUS,
        backend=Backend(raw.get("backend") or (Backend.NCCL if gpus else Backend.GLOO)),
        image=raw.get("image", defaults.image),
        gpu_resource=raw["gpuResource"],
        placement=Placement(raw["placement"]),
        env=_env(raw),
        queue_name=raw.get("queueName", ""),
        timeouts=defaults.timeouts.override_json(raw.get("timeouts", {})),
        retries=Retries(**raw["retries"]),
        thresholds=tuple(_threshold(entry) for entry in raw.get("thresholds", ())),
        artifacts=Artifacts(persistent_volume_claim=raw.get("artifacts", {}).get("persistentVolumeClaim", "")),
        quarantine=Quarantine(config_map=raw.get("quarantine", {}).get("configMap", {}).get("name", "")),
        ttl_seconds_after_finished=raw.get("ttlSecondsAfterFinished"),
        concurrency_policy=Concurrency(raw["concurrencyPolicy"]),
        suspend=raw["suspend"],
        cancel=raw["cancel"],
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
    return tuple((entry["name"], entry["value"]) for entry in raw.get("env", ()))


def _threshold(raw: Mapping[str, Any]) -> Threshold:
    return Threshold(
        collective=raw["collective"],
        size_bytes=raw["sizeBytes"],
        min_bus_bandwidth_bytes_per_second=raw["minBusBandwidthBytesPerSecond"],
        dtype=raw.get("dtype", ""),
    )


def _time(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)
