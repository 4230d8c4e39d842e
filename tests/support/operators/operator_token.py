"""Requests to the API server with the operator's token, as dry runs: its objects, and changed ones."""

import copy
from dataclasses import dataclass
from typing import Any

from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.api.parse import parse
from disttest_operator.core.workload.job import build_job, build_report_config_map, build_service
from tests.support.clusters.api import Api
from tests.support.clusters.cluster import Manifest

OPERATOR = "system:serviceaccount:disttest-system:disttest-operator"
UID = "7f1c4a52-0000-4000-8000-000000000001"
DRY = "?dryRun=All"
MERGE = "application/merge-patch+json"
Answer = tuple[int, str]
"""Status, and the message of a refusal."""


def a_test(namespace: str, **spec: Any) -> DistTest:
    metadata = {"name": "nightly", "namespace": namespace, "uid": UID}
    usual = {"suites": [{"name": "collectives"}], "nodes": 2, "gpusPerNode": 0}
    return parse({"metadata": metadata, "spec": usual | spec}, Defaults(image="disttest-runner:test"))


def a_job(namespace: str, change: Manifest) -> Manifest:
    """As the operator makes it, then changed in `metadata`, in the `pod` or in its `container`."""
    job = copy.deepcopy(build_job(a_test(namespace, image="example/own:1"), 1, "nonce"))
    job["metadata"] |= change.get("metadata", {})
    template = job["spec"]["template"]
    template["metadata"] |= change.get("template", {})
    template["spec"] |= change.get("pod", {})
    template["spec"]["volumes"] += change.get("volumes", [])
    template["spec"]["containers"][0] |= change.get("container", {})
    template["spec"]["initContainers"][0] |= change.get("init", {})
    return job


@dataclass(frozen=True, slots=True)
class Token:
    """The token of `user`; without a user, the administrator's."""

    api: Api
    user: str = OPERATOR

    @property
    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.api.namespace}/jobs"

    @property
    def services(self) -> str:
        return f"/api/v1/namespaces/{self.api.namespace}/services"

    @property
    def config_maps(self) -> str:
        return f"/api/v1/namespaces/{self.api.namespace}/configmaps"

    def ask(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Answer:
        status, answer = self.api.request(method, path + DRY, body, user=self.user, kind=kind)
        return status, answer.get("message", "") if status >= 400 else ""

    def patch(self, path: str, change: Manifest) -> Answer:
        return self.ask("PATCH", path, change, kind=MERGE)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def create_job(self, change: Manifest, *, namespace: str = "") -> Answer:
        where = namespace or self.api.namespace
        return self.ask("POST", f"/apis/batch/v1/namespaces/{where}/jobs", a_job(where, change))

    def create_service(self, change: Manifest) -> Answer:
        service = build_service(a_test(self.api.namespace), 1)
        return self.ask("POST", self.services, service | {"spec": service["spec"] | change})

    def create_report(self, change: Manifest) -> Answer:
        report = build_report_config_map(a_test(self.api.namespace), "new-report", b"packed", "ab" * 32)
        return self.ask("POST", self.config_maps, report | change)

    def patch_a_node(self, change: Manifest) -> Answer:
        _, listed = self.api.request("GET", "/api/v1/nodes?limit=1")
        return self.patch(f"/api/v1/nodes/{listed['items'][0]['metadata']['name']}", change)
