"""Validate the JSON of a DistTest and read it, with all defaults."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from disttest_contract.gang.plan import LOCAL_UID
from disttest_contract.results.thresholds import Threshold
from disttest_operator.core.api import cross_field_rules, model, schema, template
from disttest_operator.core.api.spec_schema import SPEC

NAME_LENGTH = 52  # leaves room for -a<attempt>-<node index> in the 63 characters of a host name
GENERATED_CHARACTERS = 5  # appended to generateName by the API server
NOT_CREATED = "1970-01-01T00:00:00Z"  # of a manifest that was not sent
NAME_ADVICE = (
    f"must be at most {NAME_LENGTH} lower-case letters, digits and '-', begin with a letter"
    " and end with a letter or digit"
)
GENERATE_NAME_ADVICE = (
    f"must be at most {NAME_LENGTH - GENERATED_CHARACTERS} lower-case letters, digits and '-', and begin with a letter"
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


def parse(body: Mapping[str, Any], defaults: model.Defaults) -> model.DistTest:
    """Read an object of the API server, or a manifest that was not sent to one. Raises InvalidSpecError."""
    if not isinstance(body, Mapping):
        raise InvalidSpecError(("document: must be a DistTest object: apiVersion, kind, metadata and spec",))
    problems = [*_object_problems(body)]
    spec: Any = body.get("spec")
    if isinstance(spec, Mapping):
        spec = schema.normalise(spec)
    if spec is None:
        problems.append("spec: is required")
    elif found := [*schema.check(SPEC, spec, "spec")]:
        problems += found
    else:
        spec = {"gpuResource": defaults.gpu_resource, **schema.add_defaults(SPEC, spec)}
        problems += cross_field_rules.check(spec)
    if problems:
        raise InvalidSpecError(tuple(problems))
    return build(body, _spec(spec, defaults), defaults)


def build(body: Mapping[str, Any], spec: model.Spec, defaults: model.Defaults) -> model.DistTest:
    """The DistTest with this spec instead of that of its JSON, which may be invalid."""
    metadata = body["metadata"]
    return model.DistTest(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name") or f"{metadata['generateName']}local",
        uid=metadata.get("uid", LOCAL_UID),
        generation=metadata.get("generation", 1),
        resource_version=metadata.get("resourceVersion", ""),
        created=datetime.fromisoformat(metadata.get("creationTimestamp") or NOT_CREATED),
        is_deleting="deletionTimestamp" in metadata,
        spec=spec,
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
    for key, expected in (("apiVersion", model.API_VERSION), ("kind", "DistTest")):
        if body.get(key) != expected and not (is_from_server and key not in body):
            yield f"{key}: must be {expected}"
    yield from _metadata_problems(metadata)


def _metadata_problems(metadata: Any) -> Iterator[str]:
    if not isinstance(metadata, Mapping):
        yield "metadata: must be a mapping with name or generateName"
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
        yield "metadata.name: is required, or generateName"
    namespace = metadata.get("namespace", "default")
    if not isinstance(namespace, str) or len(namespace) > 63 or not schema.matches(schema.DNS_LABEL, namespace):
        yield "metadata.namespace: must be the name of a namespace: lower-case letters, digits and '-'"


def _spec(raw: Mapping[str, Any], defaults: model.Defaults) -> model.Spec:
    return model.Spec(
        series=raw.get("series", ""),
        suites=tuple(_suite(suite) for suite in raw["suites"]),
        nodes=raw["nodes"],
        gpus_per_node=raw["gpusPerNode"],
        ranks_per_node=model.ranks_per_node(raw),
        backend=model.Backend(model.backend(raw)),
        transport=model.RequiredTransport(raw.get("transport", model.RequiredTransport.ANY)),
        image=raw.get("image", defaults.image),
        gpu_resource=raw["gpuResource"],
        placement=model.Placement(raw["placement"]),
        env=_env(raw),
        queue_name=raw.get("queueName", ""),
        timeouts=defaults.timeouts.override_json(raw.get("timeouts", {})),
        retries=model.Retries(**raw["retries"]),
        thresholds=tuple(Threshold.from_json({"dtype": "", **entry}) for entry in raw.get("thresholds", ())),
        artifacts=model.Artifacts(persistent_volume_claim=raw.get("artifacts", {}).get("persistentVolumeClaim", "")),
        quarantine=model.Quarantine(config_map=raw.get("quarantine", {}).get("configMap", {}).get("name", "")),
        ttl_seconds_after_finished=raw.get("ttlSecondsAfterFinished"),
        concurrency_policy=model.Concurrency(raw["concurrencyPolicy"]),
        suspend=raw["suspend"],
        cancel=raw["cancel"],
        template=template.read(raw.get("template", {})),
    )


def _suite(raw: Mapping[str, Any]) -> model.Suite:
    has_own_files = "configMap" in raw or "files" in raw
    return model.Suite(
        name=raw["name"],
        builtin="" if has_own_files else raw.get("builtin", raw["name"]),
        config_map=raw.get("configMap", {}).get("name", ""),
        files=tuple(raw.get("files", ())),
        select=raw.get("select", ""),
        env=_env(raw),
    )


def _env(raw: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((entry["name"], entry["value"]) for entry in raw.get("env", ()))
