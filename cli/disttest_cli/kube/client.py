"""Client of a cluster's objects, logs and watches: plain dicts in and out, one request at a time."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from disttest_cli.kube import connection
from disttest_cli.kube import kubeconfig as kubeconfigs
from disttest_cli.kube.connection import Connection
from disttest_cli.kube.credentials import CredentialsError
from disttest_cli.kube.kubeconfig import InvalidKubeconfigError
from disttest_operator.core.api.api_errors import NotFoundError, RequestRefusedError, ResponseLostError
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind, Resource

SILENCE_SECONDS = 15  # read timeout beyond the timeout of a watch
PART_BYTES = 65536
PAGE = 500  # objects of one list request
Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    body: Body
    is_gone: bool


class KubeClient:
    def __init__(self, connection_: Connection) -> None:
        self._connection = connection_

    @property
    def namespace(self) -> str:
        return self._connection.target.namespace

    @property
    def server(self) -> str:
        return self._connection.target.server

    def create(self, resource: Kind, namespace: str, manifest: Manifest) -> Body:
        """Create an object; unknown and duplicate fields are rejected, not dropped."""
        query = urlencode({"fieldValidation": "Strict"})
        made = _json(self._connection.request("POST", f"{resource.path(namespace)}?{query}", manifest))
        if not isinstance(made.get("metadata"), dict):
            raise ResponseLostError("the response of the API server contains no object")
        return made

    def review(self, resource: Kind, manifest: Manifest) -> Body:
        """Create a review, such as a SelfSubjectAccessReview, which is answered and not stored."""
        return _json(self._connection.request("POST", resource.path(), manifest))

    def get(self, resource: Kind, namespace: str, name: str) -> Body | None:
        try:
            return _json(self._connection.request("GET", resource.path(namespace, name)))
        except NotFoundError as error:
            if error.name == name:
                return None
            raise

    def list(
        self, resource: Resource | Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[Body]:
        query = {"limit": str(PAGE), "labelSelector": label_selector, "fieldSelector": field_selector, "continue": ""}
        items: list[Body] = []
        while True:
            chosen = urlencode({key: value for key, value in query.items() if value})
            page = _json(self._connection.request("GET", f"{resource.path(namespace)}?{chosen}"))
            items += page.get("items") or ()
            query["continue"] = str((page.get("metadata") or {}).get("continue") or "")
            if not query["continue"]:
                return items

    def ask(self, path: str) -> Body:
        """Read a path that is not an object: versions, groups, schemas."""
        return _json(self._connection.request("GET", path))

    def watch(self, resource: Kind, namespace: str, name: str, *, version: str, seconds: int) -> Iterator[Event]:
        """Events of one object after `version`, for at most `seconds`; ends early if the version is too old."""
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
        """Lines of a container's log without newlines; `options` are query parameters of the API, such as tailLines.

        There is no read timeout for a followed log.
        """
        query = urlencode({**options, **({"follow": "true"} if follow else {})})
        path = f"{Kind.POD.path(namespace, pod)}/log?{query}"
        return self._lines(path, read_seconds=None if follow else connection.READ_SECONDS, what="the log")

    def _lines(self, path: str, *, read_seconds: float | None, what: str) -> Iterator[bytes]:
        response = self._connection.request("GET", path, read_seconds=read_seconds, stream=True)
        try:
            yield from _lines(response)
        except connection.broken() as error:
            raise ResponseLostError(
                f"the connection of {what} broke ({type(error).__name__}: {connection.one_line(error)})"
            ) from error
        finally:
            response.close()


def connect(environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "") -> KubeClient:
    """Use the named kubeconfig or context; else the ServiceAccount of this pod, if any; else the default kubeconfig.

    Raises RequestRefusedError.
    """
    try:
        return KubeClient(Connection(kubeconfigs.load(environ, kubeconfig=kubeconfig, context=context)))
    except InvalidKubeconfigError as error:
        raise RequestRefusedError(connection.one_line(error)) from error
    except (CredentialsError, OSError) as error:  # OSError: a certificate that OpenSSL rejects
        raise RequestRefusedError(
            f"no credentials for the API server: {connection.one_line(error)}. {kubeconfigs.HOW}"
        ) from error


def _json(response: Any) -> Body:
    try:
        body = json.loads(response.data)
    except ValueError as error:
        raise ResponseLostError(f"the response of the API server is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ResponseLostError("the response of the API server is not an object")
    return body


def _lines(response: Any) -> Iterator[bytes]:
    """Split a response; the last line of a log may lack its newline."""
    rest = b""
    for part in response.stream(PART_BYTES):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _event(line: bytes) -> Event | None:
    """None for an event that ends a watch: an error such as a version that is too old, or an invalid line."""
    try:
        event = json.loads(line)
        kind, body = event["type"], event["object"]
    except (ValueError, KeyError, TypeError):
        return None
    return Event(body=body, is_gone=kind == "DELETED") if kind in {"ADDED", "MODIFIED", "DELETED"} else None
