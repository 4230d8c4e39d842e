"""Objects of a cluster, as the command line asks for them: plain dicts in and out, one request at a time."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from disttest_cli.kube import connection, resources
from disttest_cli.kube.connection import (
    BusyError,
    ClusterError,
    Connection,
    ExistsError,
    ForbiddenError,
    LostError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from disttest_cli.kube.resources import Resource
from disttest_operator.core.api.model import Manifest

SILENCE_SECONDS = 15  # beyond the time after which a watch ends by itself
PART_BYTES = 65536
PAGE = 500  # objects of one list request
__all__ = [
    "Body",
    "BusyError",
    "Cluster",
    "ClusterError",
    "Event",
    "ExistsError",
    "ForbiddenError",
    "LostError",
    "MissingError",
    "RefusedError",
    "UnreachableError",
    "connect",
]

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a watch told: the object, and whether it is gone."""

    body: Body
    is_gone: bool


class Cluster:
    """What an API server has."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    @property
    def namespace(self) -> str:
        """The one that is meant where none is named."""
        return self._server.namespace

    @property
    def server(self) -> str:
        return self._server.server

    def create(self, resource: Resource, namespace: str, manifest: Manifest) -> Body:
        """Unknown and doubled fields are refused, not dropped."""
        query = urlencode({"fieldValidation": "Strict"})
        made = _json(self._server.request("POST", f"{resource.path(namespace)}?{query}", manifest))
        if not isinstance(made.get("metadata"), dict):
            raise LostError("the API server's answer holds no object")
        return made

    def review(self, resource: Resource, manifest: Manifest) -> Body:
        """A question that is asked by creating an object, which is not kept."""
        return _json(self._server.request("POST", resource.path(), manifest))

    def get(self, resource: Resource, namespace: str, name: str) -> Body | None:
        """None if there is none of that name."""
        try:
            return _json(self._server.request("GET", resource.path(namespace, name)))
        except MissingError as error:
            if error.name == name:
                return None
            raise

    def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[Body]:
        """All of a namespace, or of all namespaces."""
        query = {"limit": str(PAGE), "labelSelector": label_selector, "fieldSelector": field_selector, "continue": ""}
        items: list[Body] = []
        while True:
            chosen = urlencode({key: value for key, value in query.items() if value})
            page = _json(self._server.request("GET", f"{resource.path(namespace)}?{chosen}"))
            items += page.get("items") or ()
            query["continue"] = str((page.get("metadata") or {}).get("continue") or "")
            if not query["continue"]:
                return items

    def ask(self, path: str) -> Body:
        """What is no object: versions, groups, health."""
        return _json(self._server.request("GET", path))

    def watch(self, resource: Resource, namespace: str, name: str, *, version: str, seconds: int) -> Iterator[Event]:
        """What happens to one object after `version`, for so long at most. Ends early if the version is too old."""
        wanted = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        path = f"{resource.path(namespace)}?{urlencode(wanted)}"
        for line in self._lines(path, read_seconds=seconds + SILENCE_SECONDS, what="the watch"):
            event = _event(line)
            if event is None:
                return
            yield event

    def log(self, namespace: str, pod: str, options: Mapping[str, str], *, follow: bool = False) -> Iterator[bytes]:
        """Lines of a container's log without their ends; `options` are the API's: container, tailLines, previous …

        A log that is followed may be silent for as long as it likes.
        """
        query = urlencode({**options, **({"follow": "true"} if follow else {})})
        path = f"{resources.PODS.path(namespace, pod)}/log?{query}"
        return self._lines(path, read_seconds=None if follow else connection.READ_SECONDS, what="the log")

    def _lines(self, path: str, *, read_seconds: float | None, what: str) -> Iterator[bytes]:
        response = self._server.request("GET", path, read_seconds=read_seconds, stream=True)
        try:
            yield from _lines(response)
        except connection.broken() as error:
            raise LostError(f"{what} broke off ({type(error).__name__}: {connection.one_line(error)})") from error
        finally:
            response.close()


def connect(environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "") -> Cluster:
    """As the ServiceAccount of the pod that we are in, unless a kubeconfig or context is named; else by kubeconfig."""
    return Cluster(connection.connect(environ, kubeconfig=kubeconfig, context=context))


def _json(response: Any) -> Body:
    try:
        body = json.loads(response.data)
    except ValueError as error:
        raise LostError(f"the API server's answer is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise LostError("the API server's answer is no object")
    return body


def _lines(response: Any) -> Iterator[bytes]:
    """What has no end is the last line of a log, and no event of a watch."""
    rest = b""
    for part in response.stream(PART_BYTES):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _event(line: bytes) -> Event | None:
    """None for what ends a watch: an error, such as a version that is too old, or what nobody can read."""
    try:
        told = json.loads(line)
        kind, body = told["type"], told["object"]
    except (ValueError, KeyError, TypeError):
        return None
    return Event(body=body, is_gone=kind == "DELETED") if kind in {"ADDED", "MODIFIED", "DELETED"} else None
