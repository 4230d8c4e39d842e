"""The DistTest that `apply` creates from a file, how to recognize an existing one, and its time budget."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from disttest_cli.errors import UsageError
from disttest_contract.text.json_values import camel_case
from disttest_operator.core.api import parse, schema
from disttest_operator.core.api.model import API_VERSION, GROUP, Manifest, Retries, Timeouts
from disttest_operator.core.observed.attempts import MIN_RUN_SECONDS

# Digest of the spec in the file: the API server adds defaults, and users may change mutable fields.
ANNOTATION_SHA256 = f"{GROUP}/applied-sha256"
TIMEOUTS = frozenset(map(camel_case, Timeouts.__slots__))
AROUND_SECONDS = 180  # per attempt, in addition to its timeouts: grace period, log and end of the pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The object to create. If it has a name, the request can be repeated without creating a second run."""

    namespace: str
    name: str
    sha256: str
    manifest: Manifest


def read(documents: list[Any], filename: str) -> Manifest:
    documents = [document for document in documents if document is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict) or documents[0].get("kind") != "DistTest":
        raise UsageError(f"{filename} must contain exactly one DistTest (apiVersion {API_VERSION})")
    metadata = documents[0].get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise UsageError(f"{filename} has no name. Set metadata.name or metadata.generateName.")
    if not isinstance(metadata.get("annotations") or {}, dict):
        raise UsageError(f"{filename}: metadata.annotations must be a mapping")
    return documents[0]


def order(manifest: Manifest, *, name: str | None, namespace: str, default_namespace: str) -> Order:
    """`name` replaces the file's name or generateName; `namespace` must not contradict the file."""
    metadata = dict(manifest["metadata"])
    if name is not None:
        _check_name(name)
        metadata["name"] = name
        metadata.pop("generateName", None)
    written = metadata.get("namespace") or ""
    if namespace and written and namespace != written:
        raise UsageError(f"the namespace of the file is {written!r}, but --namespace is {namespace!r}. Remove one.")
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
    if len(name) > parse.NAME_LENGTH or not schema.matches(schema.DNS_1035, name):
        raise UsageError(f"--name {name!r}: {parse.NAME_ADVICE}")


def digest(spec: Any) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def is_of(order: Order, body: Mapping[str, Any]) -> bool:
    annotations = body["metadata"].get("annotations") or {}
    return bool(annotations.get(ANNOTATION_SHA256) == order.sha256)


def budget_seconds(spec: Mapping[str, Any]) -> int:
    """Maximum duration of a run by its timeouts, without preemption by a queue.

    Each attempt may queue, join and end; runSeconds is for all attempts, but the last has at least a minute. Unset
    fields have the operator's defaults.
    """
    written = {name: seconds for name, seconds in (spec.get("timeouts") or {}).items() if name in TIMEOUTS}
    retries = (spec.get("retries") or {}).get("infrastructure", Retries().infrastructure)
    return seconds_of(Timeouts().override_json(written), retries)


def seconds_of(timeouts: Timeouts, retries: int) -> int:
    per_attempt = timeouts.queue_seconds + timeouts.rendezvous_seconds + AROUND_SECONDS
    return (1 + retries) * per_attempt + timeouts.run_seconds + retries * MIN_RUN_SECONDS
