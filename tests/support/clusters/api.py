"""Plain requests to the real API server, for tests that make hundreds of them."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.clusters.cluster import SessionCluster
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"


@dataclass(frozen=True, slots=True)
class Api:
    """The API server through `kubectl proxy`: a request takes a millisecond, where a kubectl takes a quarter second."""

    port: int
    cluster: SessionCluster
    namespace: str

    def request(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", user: str = ""
    ) -> tuple[int, Any]:
        """As the administrator, or as this `user`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Content-Type": kind} if body is not None else {}
            if user:
                headers["Impersonate-User"] = user
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def path(self, name: str = "", *, plural: str = "disttests", query: str = "") -> str:
        tail = f"/{name}" if name else ""
        return f"/apis/disttest.dev/v1alpha1/namespaces/{self.namespace}/{plural}{tail}{query}"

    def dry_run(self, manifest: Mapping[str, Any]) -> tuple[int, Any]:
        return self.request("POST", self.path(query="?dryRun=All&fieldValidation=Strict"), manifest)

    def create(self, manifest: Mapping[str, Any], *, plural: str = "disttests") -> dict[str, Any]:
        status, answer = self.request("POST", self.path(plural=plural, query="?fieldValidation=Strict"), manifest)
        assert status == 201, answer
        made: dict[str, Any] = answer
        return made

    def patch(self, path: str, change: Mapping[str, Any], *, query: str = "") -> tuple[int, Any]:
        return self.request("PATCH", path + query, change, kind="application/merge-patch+json")
