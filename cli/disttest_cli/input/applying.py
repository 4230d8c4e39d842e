"""What is created from a file, whether it is there already, and how long its run may take. No I/O."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from disttest_cli.errors import UsageError
from disttest_operator.core.api import parse, schema
from disttest_operator.core.api.model import API_VERSION, GROUP, Manifest, Retries, Timeouts
from disttest_operator.core.observed.attempts import LEAST_RUN_SECONDS

# Of the spec as the file has it: the API server fills in defaults, and people may change what is not frozen.
ANNOTATION_SHA256 = f"{GROUP}/applied-sha256"
AROUND_SECONDS = 180  # of each attempt, beyond its clocks: the agents' grace, the log, the pods' end


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be created, and where. With a name it can be asked for again without a second run being made."""

    namespace: str
    name: str
    sha256: str
    manifest: Manifest


def read(documents: list[Any], filename: str) -> Manifest:
    """The one DistTest of a file."""
    documents = [document for document in documents if document is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict) or documents[0].get("kind") != "DistTest":
        raise UsageError(f"{filename} must hold one DistTest, of apiVersion {API_VERSION}, and nothing else")
    metadata = documents[0].get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise UsageError(f"{filename} has no name: write metadata with name or generateName")
    if not isinstance(metadata.get("annotations") or {}, dict):
        raise UsageError(f"{filename}: metadata.annotations must be a mapping")
    return documents[0]


def order(manifest: Manifest, *, name: str | None, namespace: str, default_namespace: str) -> Order:
    """`name` takes the place of the file's name or generateName; both `namespace` and the file may say where."""
    metadata = dict(manifest["metadata"])
    if name is not None:
        _check_name(name)
        metadata["name"] = name
        metadata.pop("generateName", None)
    written = metadata.get("namespace") or ""
    if namespace and written and namespace != written:
        raise UsageError(f"the file says namespace {written!r} and --namespace says {namespace!r}: leave one away")
    sha256 = digest(manifest.get("spec"))
    metadata["namespace"] = namespace or written or default_namespace
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_SHA256: sha256}
    return Order(
        namespace=metadata["namespace"],
        name=str(metadata.get("name") or ""),
        sha256=sha256,
        manifest={**manifest, "metadata": metadata},
    )


def _check_name(name: str) -> None:
    """The API server would say it too, but of a name that nobody wrote in the file."""
    if len(name) > parse.NAME_LENGTH or not schema.matches(schema.DNS_1035, name):
        raise UsageError(f"--name {name!r}: {parse.NAME_ADVICE}")


def digest(spec: Any) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def is_of(order: Order, body: Mapping[str, Any]) -> bool:
    """Whether this object was created from a file with the same spec."""
    annotations = body["metadata"].get("annotations") or {}
    return bool(annotations.get(ANNOTATION_SHA256) == order.sha256)


def budget_seconds(spec: Mapping[str, Any]) -> int:
    """The longest that a run may take by its own timeouts; gangs that a queue took away again are not foreseen.

    Each attempt may queue, join and end; runSeconds is for all of them together, but the last has a minute at least.
    What the spec leaves out is taken as the operator's defaults are without flags.
    """
    written, defaults = spec.get("timeouts") or {}, Timeouts()
    queue_seconds = written.get("queueSeconds", defaults.queue_seconds)
    join_seconds = written.get("joinSeconds", defaults.join_seconds)
    run_seconds = written.get("runSeconds", defaults.run_seconds)
    retries = (spec.get("retries") or {}).get("infrastructure", Retries().infrastructure)
    per_attempt = int(queue_seconds + join_seconds + AROUND_SECONDS)
    return (1 + int(retries)) * per_attempt + int(run_seconds) + int(retries) * LEAST_RUN_SECONDS
