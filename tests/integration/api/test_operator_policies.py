"""What the operator can create, change and delete besides Jobs, according to manifests/policies.

Its rights are those of manifests/rbac, so each refusal here is that of a policy.
"""

import json
from collections.abc import Iterator

import pytest
import yaml

from disttest_operator.core.workload.job import build_report_config_map, build_service, run_owner
from tests.support.clusters.api import MANIFESTS
from tests.support.clusters.cluster import Manifest
from tests.support.operators.operator_token import UID, Token, a_job, a_test

SERVICES: dict[str, Manifest | None] = {
    "as it is": None,
    "with an address": {"clusterIP": "10.96.55.55", "ports": [{"port": 80}]},
    "for the world": {"clusterIP": "10.96.55.55", "type": "LoadBalancer", "ports": [{"port": 80}]},
    "with an external address": {"externalIPs": ["192.0.2.1"]},
    "another name for a host": {"clusterIP": "", "type": "ExternalName", "externalName": "example.com"},
    "of other pods": {"selector": {"app": "database"}},
    "of no pods": {"selector": None},
}


@pytest.mark.parametrize("change", SERVICES.values(), ids=SERVICES.keys())
def test_services_are_headless_and_of_one_run(change: Manifest | None, policies: Token) -> None:
    status, message = policies.create_service(change or {})
    if change is None:
        assert (status, message) == (201, "")
    else:
        assert status == 403, message
        assert message.endswith("nightly-a1: the operator can only create headless Services for pods of a DistTest")


REPORTS: dict[str, Manifest | None] = {
    "as it is": None,
    "something else in it": {"data": {"dashboard.json": "{}"}},
    "something else, packed": {"binaryData": {"run.sh": "eA=="}},
    "one that could be changed": {"immutable": False},
    "without our label": {"metadata": {"name": "new-report", "ownerReferences": [run_owner("nightly", UID)]}},
}


def test_services_and_configmaps_without_an_owner_are_refused(policies: Token) -> None:
    namespace = policies.api.namespace
    service = build_service(a_test(namespace), 1)
    report = build_report_config_map(a_test(namespace), "report", b"packed", "ab" * 32)
    for path, body in ((policies.services, service), (policies.config_maps, report)):
        body["metadata"]["ownerReferences"] = []
        status, message = policies.ask("POST", path, body)
        assert status == 403
        name = body["metadata"]["name"]
        assert message.endswith(f"{namespace}/{name} has no DistTest or DistTestSeries as owner")


@pytest.mark.parametrize("change", REPORTS.values(), ids=REPORTS.keys())
def test_configmaps_that_it_creates_are_reports(change: Manifest | None, policies: Token) -> None:
    status, message = policies.create_report(change or {})
    if change is None:
        assert (status, message) == (201, "")
    else:
        assert status == 403, message
        assert message.endswith("/new-report is not a report of a DistTest: the operator cannot create it")


class PolicyObjects:
    """The objects in the namespace: those of an idle run, and unrelated ones."""

    def __init__(self, token: Token) -> None:
        self.token, api = token, token.api
        spec = {"suites": [{"name": "collectives"}], "gpusPerNode": 0, "suspend": True}
        kind = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTest"}
        api.create(kind | {"metadata": {"name": "for-ever"}, "spec": spec})
        mortal = {"metadata": {"name": "mortal"}, "spec": spec | {"ttlSecondsAfterFinished": 60}}
        self.uid = api.create(kind | mortal)["metadata"]["uid"]
        owners = [run_owner("mortal", self.uid)]
        self._make(token.config_maps, build_report_config_map(a_test(api.namespace), "report", b"x", ""), owners)
        self._make(token.config_maps, {"metadata": {"name": "input"}, "data": {"a": "b"}}, owners)
        self._make(token.config_maps, {"metadata": {"name": "foreign"}, "data": {"a": "b"}}, [])
        for name, own in {"gang": owners, "foreign": []}.items():
            job, service = a_job(api.namespace, {}), build_service(a_test(api.namespace), 1)
            job["spec"]["suspend"] = True
            for path, body in ((token.jobs, job), (token.services, service)):
                body["metadata"]["name"] = name
                self._make(path, body, own)

    def _make(self, path: str, body: Manifest, owners: list[Manifest]) -> None:
        body["metadata"]["ownerReferences"] = owners
        status, answer = self.token.api.request("POST", path, body)
        assert status == 201, answer

    def remove(self) -> None:
        """The rest goes with the run."""
        api, token = self.token.api, self.token
        for name in ("mortal", "for-ever"):
            api.request("DELETE", api.path(name))
        for path in (token.config_maps, token.services, token.jobs):
            api.request("DELETE", f"{path}/foreign?propagationPolicy=Background")

    def owners(self, *kinds: str, version: str = "disttest.dev/v1alpha1") -> Manifest:
        """As a patch."""
        owners = [{"apiVersion": version, "kind": kind, "name": "mortal", "uid": self.uid} for kind in kinds]
        return {"metadata": {"ownerReferences": owners}}


@pytest.fixture(scope="module")
def objects(policies: Token) -> Iterator[PolicyObjects]:
    found = PolicyObjects(policies)
    yield found
    found.remove()


def test_of_a_report_it_may_change_whose_it_is(objects: PolicyObjects) -> None:
    token, report = objects.token, f"{objects.token.config_maps}/report"
    for kinds in (("DistTest", "DistTestSeries"), ("DistTestSeries",), ("DistTest",)):
        assert token.patch(report, objects.owners(*kinds)) == (200, "")
    refused: tuple[Manifest, ...] = (
        {"metadata": {"labels": {"grafana_dashboard": "1"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        objects.owners("DistTest", version="apps/v1"),
        {"metadata": {"ownerReferences": []}},
    )
    for change in refused:
        status, message = token.patch(report, change)
        assert status == 403, change
        assert (
            "can only change the owners of a report" in message
            or "has no DistTest or DistTestSeries as owner" in message
        )


@pytest.mark.parametrize("name", ["foreign", "input"])
def test_configmaps_of_others_are_not_touched_even_where_they_belong_to_a_run(
    name: str, objects: PolicyObjects
) -> None:
    token, path = objects.token, f"{objects.token.config_maps}/{name}"
    changes: tuple[Manifest, ...] = (
        {"data": {"a": "c"}},
        {"metadata": {"labels": {"a": "b"}}},
        objects.owners("DistTest"),
    )
    for answer in (*(token.patch(path, change) for change in changes), token.delete(path)):
        assert answer[0] == 403
        assert f"{token.api.namespace}/{name}" in answer[1]


def test_it_deletes_what_belongs_to_runs_and_nothing_else(objects: PolicyObjects) -> None:
    token = objects.token
    for path in (token.jobs, token.services):
        assert token.delete(f"{path}/gang") == (200, "")
        status, message = token.delete(f"{path}/foreign")
        assert status == 403
        kind = path.rpartition("/")[2]
        assert f"can only delete {kind} of DistTests: {token.api.namespace}/foreign has no" in message
    assert token.delete(f"{token.config_maps}/report") == (200, "")


def test_it_deletes_runs_only_that_are_finished_and_have_a_time_to_live(objects: PolicyObjects) -> None:
    token, api = objects.token, objects.token.api
    now = "2026-11-22T03:04:05Z"
    condition = {
        "type": "Finished",
        "status": "True",
        "reason": "AllCasesPassed",
        "message": "",
        "lastTransitionTime": now,
    }
    ended: Manifest = {"phase": "Finished", "verdict": "Passed", "reason": "AllCasesPassed", "message": "passed"}
    ended |= {"completionTime": now, "conditions": [condition]}
    for name in ("mortal", "for-ever"):

        def refused(run: str = name) -> str:
            status, message = token.delete(api.path(run))
            return message if status == 403 else ""

        message = api.cluster.wait_until("the policy is active", refused)
        assert message.endswith("can only delete a run with a verdict and a ttlSecondsAfterFinished")
        status, answer = api.patch(api.path(name) + "/status", {"status": ended})
        assert status == 200, answer
    assert token.delete(api.path("mortal")) == (200, "")
    assert token.delete(api.path("for-ever"))[0] == 403


@pytest.fixture
def labelling(policies: Token) -> Iterator[Token]:
    """It has the right to patch nodes, and the policy is active."""
    rights = str(MANIFESTS / "rbac/suspects/nodes.yaml")
    policies.api.cluster.kubectl("apply", "-f", rights)
    cordon = {"spec": {"unschedulable": True}}
    refused = "'disttest-operator-nodes'"
    policies.api.cluster.wait_until("the policy refuses", lambda: refused in policies.patch_a_node(cordon)[1])
    yield policies
    policies.api.cluster.kubectl("delete", "-f", rights)


def test_of_a_node_it_may_change_one_label(labelling: Token) -> None:
    for value in ("GPUUnhealthy", None):
        assert labelling.patch_a_node({"metadata": {"labels": {"disttest.dev/suspect": value}}}) == (200, "")
    refused: tuple[Manifest, ...] = (
        {"metadata": {"labels": {"disttest.dev/suspect": "GPUUnhealthy", "pool": "mine"}}},
        {"metadata": {"labels": {"kubernetes.io/hostname": None}}},
        {"metadata": {"labels": {"kubernetes.io/hostname": "other"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    )
    for change in refused:
        status, message = labelling.patch_a_node(change)
        assert status == 403, change
        assert message.endswith("the operator can only change the label disttest.dev/suspect")


def test_no_expression_is_written_for_another_type_than_it_meets(policies: Token) -> None:
    """The controller manager checks types and reports warnings only in the status."""
    names = [each["metadata"]["name"] for each in _policies()]

    def checked() -> list[Manifest] | None:
        listed = policies.api.cluster.kubectl("get", "validatingadmissionpolicies", *names, "-o", "json")
        found: list[Manifest] = json.loads(listed)["items"]
        return found if all("typeChecking" in each.get("status", {}) for each in found) else None

    for policy in policies.api.cluster.wait_until("types are checked", checked):
        assert policy["status"]["typeChecking"] == {}, policy["metadata"]["name"]


def _policies() -> list[Manifest]:
    texts = (path.read_text() for path in sorted((MANIFESTS / "policies").glob("*.yaml")))
    found = [document for text in texts for document in yaml.safe_load_all(text)]
    return [each for each in found if each["kind"] == "ValidatingAdmissionPolicy"]
