"""What the operator creates is accepted by the API server as it is, also where PodSecurity is strict."""

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from disttest_operator.core.api.model import Defaults, DistTest, Manifest
from disttest_operator.core.api.parse import parse
from disttest_operator.core.status import events
from disttest_operator.core.workload import job
from tests.data.good_manifest import GOOD, ON_ITS_NODE
from tests.support.clusters.api import Api
from tests.support.clusters.cluster import SessionCluster

CPU = {"suites": [{"name": "collectives"}], "nodes": 512, "gpusPerNode": 0}
PRIVILEGED = {"securityContext": {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}}
QUERY = "?dryRun=All&fieldValidation=Strict"


def a_test(spec: Mapping[str, Any], namespace: str) -> DistTest:
    metadata = {"name": "x" * 52, "namespace": namespace, "uid": "7f1c4a52-0000-4000-8000-000000000001"}
    return parse({"metadata": metadata, "spec": spec}, Defaults(image="disttest-runner:test"))


def objects(test: DistTest) -> dict[str, Manifest]:
    core, names = f"/api/v1/namespaces/{test.namespace}", f"namespaces/{test.namespace}"
    passed = events.Transition(reason="Passed", note="all cases passed", is_warning=False)
    event = events.build(test, passed, now=datetime.now(UTC), instance="here")
    return {
        f"/apis/batch/v1/{names}/jobs": job.build_job(test, 1, "n"),
        f"{core}/services": job.build_service(test, 1),
        f"{core}/configmaps": job.build_report_config_map(test, "nightly-report", b"packed", "ab" * 32),
        f"/apis/events.k8s.io/v1/{names}/events": event,
        f"/apis/disttest.dev/v1alpha1/{names}/disttestseries": job.build_series(test.namespace, "nightly-2x8"),
    }


@pytest.mark.parametrize(
    "spec",
    [CPU, GOOD["spec"], CPU | {"template": {"spec": ON_ITS_NODE}}, CPU | {"template": {"spec": PRIVILEGED}}],
    ids=["cpu", "everything", "on its node", "privileged"],
)
def test_every_object_is_accepted_as_it_was_made(spec: Mapping[str, Any], api: Api) -> None:
    for path, manifest in objects(a_test(spec, api.namespace)).items():
        status, answer = api.request("POST", path + QUERY, manifest)
        assert status == 201, (path, answer["message"])
        assert_kept(manifest, answer, manifest["kind"])


def assert_kept(sent: Any, got: Any, path: str) -> None:
    """The server may add, but neither drop nor change; an empty string it leaves out."""
    match sent:
        case dict():
            for key, value in sent.items():
                assert key in got or value == "", f"{path}.{key} was dropped"
                assert_kept(value, got.get(key, ""), f"{path}.{key}")
        case list():
            assert len(sent) == len(got), path
            for index, (ours, theirs) in enumerate(zip(sent, got, strict=True)):
                assert_kept(ours, theirs, f"{path}[{index}]")
        case _:
            assert sent == got, path


@pytest.mark.parametrize("spec", [CPU, GOOD["spec"]], ids=["cpu", "everything"])
def test_the_pods_are_let_into_a_restricted_namespace(
    spec: Mapping[str, Any], api: Api, cluster: SessionCluster
) -> None:
    with cluster.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        template = copy.deepcopy(job.build_job(a_test(spec, namespace), 1, "n")["spec"]["template"])
        # Admission looks these up before PodSecurity has its say; this cluster has none of them.
        for name in ("priorityClassName", "runtimeClassName", "serviceAccountName"):
            template["spec"].pop(name, None)
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "x", **template["metadata"]}}
        status, answer = api.request("POST", f"/api/v1/namespaces/{namespace}/pods{QUERY}", pod)
        assert status == 201, answer["message"]
