"""Gangs that the infrastructure takes away, and what runs do then: on a real API server and scheduler."""

import json
from typing import Any

from tests.support import patience
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import (
    OperatorProcess,
    Status,
    config_map,
    disttest,
    finished,
    patch_spec,
    reaches_phase,
)

# The first gang sleeps until something befalls it.
PATIENT = """
import socket, time

def test_quick():
    pass

def test_patient():
    if "-a1-" in socket.gethostname():
        time.sleep(120)
"""
TAINT = "disttest-maintenance=yes:NoExecute"
SECONDS = 150  # two gangs one after the other, on a machine that has more to do
MOST_OF_A_NODE = {"cpu": "40"}  # of 64


def patient_run(cluster: SessionCluster, namespace: str, name: str, **spec: Any) -> None:
    """One pod, whose first attempt lasts."""
    cluster.apply(config_map(namespace, name, PATIENT))
    usual = {"nodes": 1, "suites": [{"name": "own", "configMap": {"name": name}}], "retries": {"infrastructure": 1}}
    cluster.apply(disttest(namespace, name, **usual | spec))


def runs_its_first_gang(cluster: SessionCluster, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    """Gives the pod."""
    patient_run(cluster, namespace, name, **spec)
    reaches_phase(cluster, namespace, name, "Running")
    (pod,) = cluster.find("pods", namespace, f"disttest.dev/name={name}")
    return pod


def evict(cluster: SessionCluster, namespace: str, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(eviction))


def attempts(status: Status) -> list[tuple[int, str, bool]]:
    return [(one["number"], one["reason"], one.get("charged", False)) for one in status["attempts"]]


def test_a_run_whose_pod_is_evicted_passes_with_its_second_gang(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    pod = runs_its_first_gang(cluster, namespace, "evicted")
    logs = ("logs", pod["metadata"]["name"], "-n", namespace)
    cluster.wait_until("the first case is done", lambda: "passed" in cluster.kubectl(*logs, check=False), 60)
    evict(cluster, namespace, pod["metadata"]["name"])
    status = finished(cluster, namespace, "evicted", SECONDS)
    assert (status["verdict"], status["attempt"]) == ("Passed", 2), status
    assert attempts(status) == [(1, "Disrupted", True), (2, "AllCasesPassed", False)]
    assert status["attempts"][0]["cases"]["passed"] == 1, "what the first gang had found out is kept"
    assert status["attempts"][0]["firstFailure"]["case"].endswith("test_patient")
    assert "suspectNodes" not in status or status["suspectNodes"] == [], "an eviction blames no node"
    assert [job["metadata"]["name"] for job in cluster.find("jobs", namespace)] == ["evicted-a2"]
    assert [one["metadata"]["name"] for one in cluster.find("services", namespace)] == ["evicted-a2"]


def test_a_node_that_throws_its_pods_out_is_a_suspect_and_a_pass_elsewhere_confirms_it(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    pod = runs_its_first_gang(cluster, namespace, "tainted")
    node = pod["spec"]["nodeName"]
    with cluster.tainted(node, TAINT):
        status = finished(cluster, namespace, "tainted", SECONDS)
    assert (status["verdict"], status["attempt"]) == ("Passed", 2), status
    assert attempts(status)[0] == (1, "NodeLost", True)
    (suspect,) = status["suspectNodes"]
    assert (suspect["name"], suspect["reason"], suspect["confirmed"]) == (node, "NodeLost", True)
    assert status["attempts"][1]["nodes"] != [node]


def test_a_run_that_is_preempted_by_a_higher_priority_continues_on_another_node(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    resources = {"spec": {"resources": {"requests": MOST_OF_A_NODE}}}
    pod = runs_its_first_gang(cluster, namespace, "preempted", template=resources)
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    urgent = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "urgent", "namespace": namespace},
        "spec": {
            "priorityClassName": f"urgent-{namespace}",
            "nodeSelector": {"kubernetes.io/hostname": pod["spec"]["nodeName"]},
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "disttest-runner:dev",
                    "command": ["sleep", "1000"],
                    "resources": {"requests": MOST_OF_A_NODE},
                }
            ],
        },
    }
    cluster.apply([priority | {"metadata": {"name": f"urgent-{namespace}"}}, urgent])
    try:
        status = finished(cluster, namespace, "preempted", SECONDS)
    finally:
        cluster.kubectl("delete", "priorityclass", f"urgent-{namespace}")
    assert (status["verdict"], status["attempt"]) == ("Passed", 2), status
    assert attempts(status)[0] == (1, "Disrupted", True)
    assert "PreemptionByScheduler" in status["attempts"][0]["message"]


def test_a_pod_deleted_by_hand_costs_a_retry_and_blames_no_node(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    pod = runs_its_first_gang(cluster, namespace, "deleted")
    cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", namespace, "--wait=false")
    status = finished(cluster, namespace, "deleted", SECONDS)
    assert (status["verdict"], status["attempt"]) == ("Passed", 2), status
    assert status["attempts"][0]["verdict"] == "InfraFailed"
    assert not status.get("suspectNodes")


def test_a_run_is_suspended_and_resumed_by_its_user_and_nothing_is_charged(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    runs_its_first_gang(cluster, namespace, "paused", retries={"infrastructure": 0})
    patch_spec(cluster, namespace, "paused", suspend=True)
    cluster.kubectl(
        "wait", "--for=condition=Suspended", f"--timeout={patience.whole(20)}s", "-n", namespace, "dt/paused"
    )
    cluster.wait_until("its pods are gone", lambda: not cluster.find("pods", namespace), 40)
    assert cluster.find("jobs", namespace) == []
    patch_spec(cluster, namespace, "paused", suspend=False)
    status = finished(cluster, namespace, "paused", SECONDS)
    assert (status["verdict"], status["attempt"]) == ("Passed", 2), status
    assert attempts(status)[0] == (1, "Suspended", False)


def test_a_queue_that_takes_the_nodes_away_is_no_failure_and_admits_the_next_gang(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    """As Kueue does it: by spec.suspend of the Job, which is created suspended."""
    patient_run(cluster, namespace, "queued", queueName="gpu-nightly", retries={"infrastructure": 0})

    def admit(attempt: int) -> None:
        job = f"queued-a{attempt}"
        cluster.wait_until(f"{job} waits", lambda: cluster.get("job", job, namespace), 40)
        patch_spec(cluster, namespace, job, kind="job", suspend=False)

    admit(1)
    reaches_phase(cluster, namespace, "queued", "Running")
    patch_spec(cluster, namespace, "queued-a1", kind="job", suspend=True)
    admit(2)
    status = finished(cluster, namespace, "queued", SECONDS)
    assert (status["verdict"], status["attempt"]) == ("Passed", 2), status
    assert attempts(status)[0] == (1, "Suspended", False)
    (condition,) = [one for one in status["conditions"] if one["type"] == "Suspended"]
    assert (condition["status"], condition["reason"]) == ("False", "Admitted")


def test_a_cancelled_run_ends_at_once_with_its_pods(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    runs_its_first_gang(cluster, namespace, "cancelled")
    patch_spec(cluster, namespace, "cancelled", cancel=True)
    status = finished(cluster, namespace, "cancelled", timeout_seconds=10)
    assert (status["verdict"], status["reason"]) == ("Cancelled", "Cancelled"), status
    cluster.wait_until("its pods are gone", lambda: not cluster.find("pods", namespace), 40)
    refused = cluster.kubectl(
        *("patch", "disttest", "cancelled", "-n", namespace, "--type=merge", "-p", '{"spec": {"cancel": false}}'),
        check=False,
    )
    assert "cancel cannot be unset" in refused


def test_a_run_waits_for_the_older_one_of_its_series_with_the_policy_wait(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    runs_its_first_gang(cluster, namespace, "older", series="one-by-one")
    patient_run(cluster, namespace, "younger", series="one-by-one", concurrencyPolicy="Wait")

    def waits() -> bool:
        status = (cluster.get("disttest", "younger", namespace) or {}).get("status") or {}
        return "run 'older' of the series has not finished" in status.get("message", "")

    cluster.wait_until("the younger run waits", waits, 20)
    assert cluster.get("job", "younger-a1", namespace) is None
    patch_spec(cluster, namespace, "older", cancel=True)
    finished(cluster, namespace, "older")
    reaches_phase(cluster, namespace, "younger", "Running")
    patch_spec(cluster, namespace, "younger", cancel=True)
    finished(cluster, namespace, "younger")
