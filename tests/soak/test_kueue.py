"""Runs that wait in a queue of the real Kueue."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import patience
from tests.support.clusters import kueue as support
from tests.support.clusters.cluster import Manifest, SessionCluster, fresh_cluster, say_aloud
from tests.support.clusters.kueue import Kueue
from tests.support.operators import operator
from tests.support.operators.operator import OperatorProcess, Status, config_map, disttest, finished, reaches_phase

CPU_OF_A_POD = 4
ONE_RUN = 2 * CPU_OF_A_POD
NODE_LABEL = {"disttest-kueue": "yes"}  # of the queue's flavor
QUEUE = "gpu-nightly"
QUICK = {"name": "collectives", "select": "barrier"}
# The first gang lasts as long as it says.
SUITE = """
import socket, time

def test_own():
    if "-a1-" in socket.gethostname():
        time.sleep({seconds})
"""


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionCluster]:
    """Not the one of other tests: while Kueue's webhooks are there and Kueue is not, no Job can be created."""
    with fresh_cluster(tmp_path_factory.mktemp("kueue"), say_aloud(request.config)) as fresh:
        fresh.kubectl("label", "nodes", "--all", *(f"{key}={value}" for key, value in NODE_LABEL.items()))
        yield fresh


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest) -> support.Built:
    return support.build(say_aloud(request.config))


@pytest.fixture(scope="module", autouse=True)
def kueue(built: support.Built, cluster: SessionCluster) -> Iterator[Kueue]:
    with support.running(cluster, built) as process:
        yield process


@pytest.fixture(scope="module")
def installed(cluster: SessionCluster) -> Path:
    return operator.install(cluster)


@pytest.fixture(autouse=True)
def running(cluster: SessionCluster, kueue: Kueue, installed: Path) -> Iterator[OperatorProcess]:
    """It may do what manifests/rbac allow."""
    with operator.running(cluster, installed, cluster.directory / "operator.log") as process:
        yield process


def run(cluster: SessionCluster, namespace: str, name: str, *, lasts_seconds: int = 0, **spec: Any) -> None:
    """Two pods that take all of a queue for one run."""
    cluster.apply(config_map(namespace, name, SUITE.format(seconds=lasts_seconds)))
    usual: dict[str, Any] = {
        "suites": [{"name": "own", "configMap": {"name": name}}],
        "ranksPerNode": 1,
        "queueName": QUEUE,
        "template": {"spec": {"resources": {"requests": {"cpu": str(CPU_OF_A_POD)}}}},
    }
    cluster.apply(disttest(namespace, name, **usual | spec))


def quota(cluster: SessionCluster, namespace: str, *, cpu: int = ONE_RUN) -> None:
    cluster.apply(support.queue(namespace, QUEUE, cpu=cpu, node_labels=NODE_LABEL))


def condition(body: Manifest | None, name: str) -> dict[str, Any] | None:
    conditions = ((body or {}).get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == name), None)


def suspended(status: Status) -> tuple[str, str]:
    found = condition({"status": status}, "Suspended")
    return (found["status"], found["reason"]) if found else ("", "")


def workload(cluster: SessionCluster, namespace: str, job: str) -> Manifest | None:
    of_job = (
        one for one in cluster.find("workloads", namespace) if one["metadata"]["ownerReferences"][0]["name"] == job
    )
    return next(of_job, None)


def pods(cluster: SessionCluster, namespace: str) -> set[str]:
    """Of runs, by uid."""
    return {pod["metadata"]["uid"] for pod in cluster.find("pods", namespace, "disttest.dev/attempt")}


def says(cluster: SessionCluster, namespace: str, name: str, words: str, timeout_seconds: float = 30) -> Status:
    """The status, once its message has these words."""

    def probe() -> Status | None:
        status = (cluster.get("disttest", name, namespace) or {}).get("status") or {}
        return status if words in status.get("message", "") else None

    return cluster.wait_until(f"{name} says {words!r}", probe, timeout_seconds)


def patch(cluster: SessionCluster, kind: str, name: str, **spec: Any) -> None:
    cluster.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec}))


def urgent_job(namespace: str, seconds: int) -> list[Manifest]:
    """A Job that is none of ours, takes the whole queue, and is more important."""
    name = f"urgent-{namespace}"
    priority = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
    container = {
        "name": "main",
        "image": "disttest-runner:dev",
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": str(ONE_RUN)}},
    }
    labels = {"kueue.x-k8s.io/queue-name": QUEUE, "kueue.x-k8s.io/priority-class": name}
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "urgent", "namespace": namespace, "labels": labels},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    return [priority | {"value": 1000}, job]


def test_a_run_is_created_suspended_and_begins_when_kueue_admits_it(cluster: SessionCluster, namespace: str) -> None:
    quota(cluster, namespace)
    patch(cluster, "clusterqueue", f"{namespace}-{QUEUE}", stopPolicy="Hold")
    run(cluster, namespace, "queued")
    status = says(cluster, namespace, "queued", f"waiting in queue '{QUEUE}'")
    assert (status["phase"], suspended(status)) == ("Queued", ("True", "Queued"))
    cluster.wait_until("Kueue has its workload", lambda: workload(cluster, namespace, "queued-a1"))
    assert cluster.find("pods", namespace) == []
    patch(cluster, "clusterqueue", f"{namespace}-{QUEUE}", stopPolicy="None")
    status = finished(cluster, namespace, "queued")
    assert (status["verdict"], status["attempt"]) == ("Passed", 1), status
    assert suspended(status) == ("False", "Admitted")
    assert status["stepSeconds"]["queued"] >= 1, "it was held back, if only for a moment"
    job = cluster.get("job", "queued-a1", namespace)
    assert job
    assert job["spec"]["template"]["spec"]["nodeSelector"] == NODE_LABEL, "what Kueue sets stays"
    assert job["metadata"]["generation"] == 2, "created by the operator, admitted by Kueue, not changed by others"
    cluster.wait_until(
        "Kueue takes it for finished", lambda: condition(workload(cluster, namespace, "queued-a1"), "Finished")
    )


def test_of_two_runs_for_one_quota_the_second_waits_for_the_first(cluster: SessionCluster, namespace: str) -> None:
    quota(cluster, namespace)
    run(cluster, namespace, "first", lasts_seconds=5)
    reaches_phase(cluster, namespace, "first", "Running")
    run(cluster, namespace, "second")
    status = says(cluster, namespace, "second", f"waiting in queue '{QUEUE}'")
    assert suspended(status) == ("True", "Queued")
    assert not (cluster.get("disttest", "first", namespace) or {})["status"].get("verdict"), "the first still runs"
    for name in ("first", "second"):
        assert finished(cluster, namespace, name)["verdict"] == "Passed"
    ended = condition(cluster.get("job", "first-a1", namespace), "Complete")
    admitted = condition(workload(cluster, namespace, "second-a1"), "QuotaReserved")
    assert ended
    assert admitted
    assert admitted["lastTransitionTime"] >= ended["lastTransitionTime"]


def test_a_run_that_kueue_preempts_is_not_charged_and_passes_when_it_is_admitted_again(
    cluster: SessionCluster, namespace: str
) -> None:
    quota(cluster, namespace)
    run(cluster, namespace, "preempted", lasts_seconds=120, retries={"infrastructure": 0})
    reaches_phase(cluster, namespace, "preempted", "Running")
    cluster.apply(urgent_job(namespace, seconds=5))
    status = finished(cluster, namespace, "preempted", timeout_seconds=120)
    assert (status["verdict"], status["attempt"]) == ("Passed", 2), status
    lost = status["attempts"][0]
    assert (lost["reason"], lost.get("charged", False)) == ("Suspended", False), status
    assert suspended(status) == ("False", "Admitted")
    assert not status.get("suspectNodes")
    reasons = {event["reason"] for event in cluster.find("events", namespace)}
    assert "EvictedDueToPreempted" in reasons, reasons
    urgent = condition(cluster.get("job", "urgent", namespace), "Complete")
    admitted = condition(workload(cluster, namespace, "preempted-a2"), "QuotaReserved")
    assert urgent
    assert admitted
    assert admitted["lastTransitionTime"] >= urgent["lastTransitionTime"], "it waited for its turn"
    assert [job["metadata"]["name"] for job in cluster.find("jobs", namespace)] == ["preempted-a2", "urgent"]


def test_a_run_that_is_never_admitted_ends_with_advice_and_leaves_the_queue(
    cluster: SessionCluster, namespace: str
) -> None:
    quota(cluster, namespace, cpu=ONE_RUN - 1)
    timeouts = {"queueSeconds": 5, "rendezvousSeconds": 60, "caseSeconds": 30, "runSeconds": 120}
    run(cluster, namespace, "too-large", timeouts=timeouts)
    status = finished(cluster, namespace, "too-large")
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "QueueTimeout"), status
    assert f"waiting in queue '{QUEUE}'" in status["message"]
    assert "increase spec.timeouts.queueSeconds" in status["message"]
    cluster.wait_until("its Job is gone", lambda: not cluster.find("jobs", namespace))
    cluster.wait_until("Kueue has forgotten it", lambda: not cluster.find("workloads", namespace))


def test_a_run_waits_for_a_kueue_that_is_away(cluster: SessionCluster, namespace: str, kueue: Kueue) -> None:
    """Its webhook fails closed: without it, no Job can be created, and no node is at fault."""
    quota(cluster, namespace)
    kueue.stop()
    try:
        run(cluster, namespace, "patient")
        cluster.wait_until("its Service is there", lambda: cluster.get("service", "patient-a1", namespace))
        log = cluster.directory / "operator.log"
        cluster.wait_until("its Job is refused", lambda: "failed calling webhook" in log.read_text())
        assert not (cluster.get("disttest", "patient", namespace) or {}).get("status", {}).get("verdict")
    finally:
        kueue.start()
        kueue.wait_until_ready()
    status = finished(cluster, namespace, "patient", timeout_seconds=120)
    assert (status["verdict"], status["attempt"]) == ("Passed", 1), status


def test_a_run_that_is_preempted_without_an_operator_continues_in_the_same_job(
    cluster: SessionCluster, namespace: str, running: OperatorProcess, installed: Path
) -> None:
    """The Job is not replaced: Kueue resumes it, and its first pods do not count."""
    quota(cluster, namespace)
    timeouts = {"queueSeconds": 60, "rendezvousSeconds": 60, "caseSeconds": 60, "runSeconds": 120}
    run(cluster, namespace, "unseen", lasts_seconds=25, retries={"infrastructure": 0}, timeouts=timeouts)
    reaches_phase(cluster, namespace, "unseen", "Running")
    first = pods(cluster, namespace)
    running.stop(patience.stretched(operator.STOP_SECONDS))
    cluster.apply(urgent_job(namespace, seconds=1))
    cluster.wait_until("new pods", lambda: len(pods(cluster, namespace) - first) == len(first), 90)
    with operator.running(cluster, installed, cluster.directory / "operator.log"):
        status = finished(cluster, namespace, "unseen", timeout_seconds=120)
    assert (status["verdict"], status["attempt"]) == ("Passed", 1), status


def test_the_overlay_makes_a_queue_by_which_a_run_is_admitted_and_counted(cluster: SessionCluster) -> None:
    """The operator's own pod has no image here; the one that tests run has its rights."""
    overlay = str(operator.MANIFESTS / "overlays/kueue")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", overlay)
    requests = {"spec": {"resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}}
    cluster.apply(disttest("disttest-queued", "queued", queueName=QUEUE, suites=[QUICK], template=requests))
    status = finished(cluster, "disttest-queued", "queued", timeout_seconds=120)
    assert (status["verdict"], status["attempt"]) == ("Passed", 1), status
    admitted = (workload(cluster, "disttest-queued", "queued-a1") or {})["status"]["admission"]
    assert admitted["clusterQueue"] == "disttest-gpu-nightly"
    [counted] = admitted["podSetAssignments"]
    assert counted["flavors"] == {"cpu": "disttest-gpu", "memory": "disttest-gpu"}
    assert counted["resourceUsage"]["cpu"] == "2", "of both pods"
