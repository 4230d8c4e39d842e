"""The CPU sample as users run it: two images on two real nodes, in namespaces with restricted pod security."""

import functools
import json

import pytest
import yaml

from tests.support.clusters import real_nodes
from tests.support.clusters.cluster import KubectlError, Manifest, SessionCluster
from tests.support.clusters.real_nodes import MANIFESTS, NAMESPACE, SYSTEM
from tests.support.operators.operator import finished, ledger

RUN_SECONDS = 300
PRIVILEGED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "privileged"},
    "spec": {"containers": [{"name": "c", "image": "registry.devcluster/pause:dev"}]},
}
SCRAPES = """
import json, pathlib, ssl, urllib.error, urllib.request
token = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/token").read_text()
codes = []
for headers in ({}, {"Authorization": "Bearer " + token}):
    asked = urllib.request.Request("https://127.0.0.1:8443/metrics", headers=headers)
    try:
        urllib.request.urlopen(asked, timeout=10, context=ssl._create_unverified_context())
    except urllib.error.HTTPError as error:
        codes.append(error.code)
print(json.dumps(codes))
"""
PROCESSES = "import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdecimal()))"


def sample(name: str, **changes: object) -> Manifest:
    """manifests/samples/cpu-smoke.yaml, one pod a node."""
    body: Manifest = yaml.safe_load((MANIFESTS / "samples" / "cpu-smoke.yaml").read_text())
    body["metadata"] = {"name": name, "namespace": NAMESPACE}
    body["spec"] |= {"placement": "Spread", "series": name, **changes}
    return body


@pytest.fixture(scope="module")
def passed(installed: SessionCluster) -> Manifest:
    installed.apply(sample("smoke"))
    finished(installed, NAMESPACE, "smoke", RUN_SECONDS)
    run = installed.get("disttest", "smoke", NAMESPACE)
    assert run is not None
    return run


def test_the_cpu_sample_passes_over_two_real_nodes(installed: SessionCluster, passed: Manifest) -> None:
    status = passed["status"]
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status["message"]
    # The verdict does not wait until the second pod is reported as ended.
    pods = installed.wait_until("both pods have ended", lambda: ended_pods(installed), 30)
    assert {pod["spec"]["nodeName"] for pod in pods} == set(real_nodes.REAL_NODES)
    states = [pod["status"]["containerStatuses"][0] for pod in pods]
    assert [state["state"]["terminated"]["exitCode"] for state in states] == [0, 0]
    assert all(state["imageID"].startswith("registry.devcluster/disttest-runner@sha256:") for state in states)


def ended_pods(cluster: SessionCluster) -> list[Manifest] | None:
    pods = real_nodes.pods_of(cluster, "smoke")
    return pods if all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in pods) else None


def test_its_report_and_its_ledger_came_through_a_real_kubelet(installed: SessionCluster, passed: Manifest) -> None:
    report = real_nodes.report_of(installed, "smoke")
    assert report is not None
    counts = passed["status"]["cases"]
    assert counts["passed"] + counts["xfailed"] == counts["total"] > 100
    assert sum(len(suite["cases"]) for suite in report["suites"]) == counts["total"]
    assert {"queued", "scheduled", "pulled", "joined", "ran", "collected"} == set(passed["status"]["stepSeconds"])
    installed.wait_until("the ledger counts it", lambda: ledger(installed, NAMESPACE, "smoke").get("runCount"), 10)


def test_its_pods_ran_restricted_and_without_a_key_to_the_api(installed: SessionCluster, passed: Manifest) -> None:
    for pod in real_nodes.pods_of(installed, "smoke"):
        assert not [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
    namespace = installed.get("namespace", NAMESPACE)
    assert namespace is not None
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("namespace", [NAMESPACE, SYSTEM])
def test_both_namespaces_refuse_a_pod_that_is_not_restricted(namespace: str, installed: SessionCluster) -> None:
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        installed.apply(PRIVILEGED, namespace)


@pytest.fixture(scope="module")
def operator_pod(installed: SessionCluster) -> str:
    (pod,) = installed.find("pods", SYSTEM, "app.kubernetes.io/name=disttest-operator")
    name: str = pod["metadata"]["name"]
    return name


def test_the_operator_is_one_process_without_root(installed: SessionCluster, operator_pod: str) -> None:
    execute = functools.partial(real_nodes.execute, installed, SYSTEM, operator_pod)
    assert execute("id", "-u").strip() == "65532"
    running = json.loads(execute("python", "-c", PROCESSES))
    assert running[0] == 1
    assert len(running) == 2, "the operator, and this look at it"


def test_the_operator_cannot_write_to_its_root(installed: SessionCluster, operator_pod: str) -> None:
    with pytest.raises(KubectlError, match="Read-only file system"):
        real_nodes.execute(installed, SYSTEM, operator_pod, "touch", "/opt/disttest/new")


def test_the_operator_asks_who_scrapes_and_signs_its_certificate_on_a_root_that_it_cannot_write_to(
    installed: SessionCluster, operator_pod: str
) -> None:
    """Its own ServiceAccount is known and may not read metrics: with the rights of the manifests it can tell."""
    said = real_nodes.execute(installed, SYSTEM, operator_pod, "python", "-c", SCRAPES)
    assert json.loads(said) == [401, 403]


def test_network_policies_are_accepted_and_select_the_pods(
    installed: SessionCluster, passed: Manifest, operator_pod: str
) -> None:
    """Accepted only: a bridge does not enforce them."""
    policies = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for namespace in (NAMESPACE, SYSTEM)
        for one in installed.find("networkpolicies", namespace)
    }
    assert policies == {(NAMESPACE, "disttest-runs"), (SYSTEM, "disttest-operator")}
    assert len(installed.find("pods", NAMESPACE, "disttest.dev/name")) >= 2
    assert installed.find("pods", SYSTEM, "app.kubernetes.io/name=disttest-operator")


def test_a_real_kubelet_pulled_the_operator_image(installed: SessionCluster, operator_pod: str) -> None:
    events = installed.find("events", SYSTEM)
    pulled = [
        one["message"] for one in events if one["reason"] == "Pulled" and one["involvedObject"]["name"] == operator_pod
    ]
    assert any("Successfully pulled image" in message for message in pulled), pulled


def test_a_run_passes_in_a_users_own_torch_image(installed: SessionCluster) -> None:
    """That image has torch and nothing of ours, not even pytest: the runner is injected."""
    image = "registry.devcluster/disttest-torch:dev"
    installed.apply(sample("own-image", image=image, suites=[{"name": "fully-shard-autograd"}]))
    status = finished(installed, NAMESPACE, "own-image", RUN_SECONDS)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status["message"]
    for pod in real_nodes.pods_of(installed, "own-image"):
        assert pod["spec"]["containers"][0]["image"] == image
        (injected,) = pod["status"]["initContainerStatuses"]
        assert injected["state"]["terminated"]["exitCode"] == 0


def test_an_image_without_torch_is_an_error_that_names_it(installed: SessionCluster) -> None:
    """Python is all it has."""
    installed.apply(sample("no-torch", image="registry.devcluster/pause:dev"))
    status = finished(installed, NAMESPACE, "no-torch", 60)
    assert status["verdict"] == "Errored"
    assert "torch" in status["message"]
