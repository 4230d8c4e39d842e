"""Objects read through `kubectl proxy`: a look takes milliseconds, where a kubectl takes a quarter of a second.

Tests look many times a second, and would take the processors from what they wait for.
"""

import contextlib
import http.client
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from devcluster.controlplane.lifecycle import DIE_WITH_OWNER

SECONDS = 30
TOO_MANY, TIMES, LONGEST_PAUSE_SECONDS = 429, 10, 3
CORE = "/api/v1"
Answer = tuple[int, Any]


class UnknownKindError(Exception):
    """No resource has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyResource:
    base: str
    plural: str
    kind: str
    api_version: str
    is_namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        where = f"/namespaces/{namespace}" if self.is_namespaced else ""
        return f"{self.base}{where}/{self.plural}{f'/{name}' if name else ''}"


@dataclass(frozen=True, slots=True)
class KubectlProxy:
    """On a port of 127.0.0.1, with the rights of the administrator."""

    port: int
    _resources: dict[str, ProxyResource] = field(default_factory=dict)

    def request(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Answer:
        """A read is repeated when the API server requests it, as in kubectl: the server rebuilds its stores of CRDs."""
        for _ in range(TIMES - 1):
            status, answer = self._request(method, path, body, kind)
            if method != "GET" or status != TOO_MANY:
                return status, answer
            time.sleep(_pause_seconds(answer))
        return self._request(method, path, body, kind)

    def _request(self, method: str, path: str, body: Any, kind: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            headers = {"Content-Type": kind} if body is not None else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if answer.getheader("Content-Type") == "application/json" else text
        finally:
            connection.close()

    def get(self, kind: str, name: str, namespace: str) -> Answer:
        status, body = self.request("GET", self._resource(kind).path(namespace, name))
        return status, _without_managed_fields(body) if status == 200 else body

    def find(self, kind: str, namespace: str, selector: str = "") -> Answer:
        """The items, each with its kind, which lists of the API server leave out."""
        resource = self._resource(kind)
        status, body = self.request("GET", f"{resource.path(namespace)}?labelSelector={quote(selector)}")
        if status != 200:
            return status, body
        named = {"apiVersion": resource.api_version, "kind": resource.kind}
        return status, [named | _without_managed_fields(item) for item in body["items"]]

    def _resource(self, name: str) -> ProxyResource:
        if name.lower() not in self._resources:
            self._discover()
        try:
            return self._resources[name.lower()]
        except KeyError as error:
            raise UnknownKindError(name) from error

    def _discover(self) -> None:
        """By all names that kubectl takes. Where two groups have the same, the core group and then the first counts."""
        _, groups = self.request("GET", "/apis")
        for base in (CORE, *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups["groups"])):
            status, found = self.request("GET", base)
            for one in found["resources"] if status == 200 else ():
                if "/" in one["name"]:
                    continue
                version = found["groupVersion"]
                resource = ProxyResource(
                    base=base,
                    plural=one["name"],
                    kind=one["kind"],
                    api_version=version,
                    is_namespaced=one["namespaced"],
                )
                group = version.rpartition("/")[0]
                names = (one["name"], one["singularName"], one["kind"].lower(), *one.get("shortNames", ()))
                for word in (*names, f"{one['name']}.{group}"):
                    self._resources.setdefault(word, resource)


def _pause_seconds(answer: Any) -> float:
    """Under load the answer is a word, without a time."""
    details = answer.get("details", {}) if isinstance(answer, dict) else {}
    return float(min(details.get("retryAfterSeconds", 1), LONGEST_PAUSE_SECONDS))


def _without_managed_fields(body: dict[str, Any]) -> dict[str, Any]:
    """As kubectl shows it."""
    body["metadata"].pop("managedFields", None)
    return body


@contextlib.contextmanager
def running(kubectl: Sequence[str]) -> Iterator[KubectlProxy]:
    """It ends with this process, however that ends."""
    command = [*DIE_WITH_OWNER, *kubectl, "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield KubectlProxy(int(process.stdout.readline().rpartition(":")[2]))
        finally:
            process.terminate()
