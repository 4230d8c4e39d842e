"""What befalls runs on real nodes: each gets its verdict, and what was seen is evidence for the rules."""

import signal
from collections.abc import Iterator

import pytest

from disttest_contract import limits
from tests.support.clusters import evidence, real_nodes
from tests.support.clusters.cluster import SessionCluster
from tests.support.clusters.evidence import NamespaceWatch
from tests.support.clusters.real_nodes import NAMESPACE
from tests.support.operators.operator import Status, config_map, disttest, finished, reaches_phase

TIMEOUTS = {"queueSeconds": 120, "rendezvousSeconds": 60, "caseSeconds": 300, "runSeconds": 400}
START_SECONDS = 60
END_SECONDS = 60
LOST_SECONDS = 240  # 50 until the node is called unreachable, 60 of toleration, and slack
SLEEPY = """
import time

def test_sleepy():
    time.sleep({seconds})
"""
HUNGRY = """
import os

def test_hungry():
    if os.environ["RANK"] == "3":
        hoard = b"x" * (4 << 30)
        assert hoard
"""

LOUD = """
def test_loud():
    for number in range(20 << 10):
        print(f"{number:08}", "x" * 1014)
"""


@pytest.fixture
def watch(installed: SessionCluster) -> Iterator[NamespaceWatch]:
    with evidence.watching(installed, NAMESPACE) as running:
        yield running


def start(cluster: SessionCluster, name: str, text: str, **spec: object) -> None:
    """A run of one suite from a ConfigMap."""
    cluster.apply(config_map(NAMESPACE, name, text))
    suites = [{"name": "own", "configMap": {"name": name}}]
    cluster.apply(disttest(NAMESPACE, name, suites=suites, timeouts=TIMEOUTS, **spec))


def start_sleepy(cluster: SessionCluster, name: str, seconds: float = 250) -> None:
    """Back when its case is in flight."""
    start(cluster, name, SLEEPY.format(seconds=seconds))
    reaches_phase(cluster, NAMESPACE, name, "Running", START_SECONDS)
    leader = next(pod for pod in real_nodes.pods_of(cluster, name) if "-a1-0-" in pod["metadata"]["name"])
    # The termination message names the case in flight, long before anybody reads it.
    command = ("exec", "-n", NAMESPACE, leader["metadata"]["name"], "--", "cat", "/dev/termination-log")
    cluster.wait_until("the case is in flight", lambda: "test_sleepy" in cluster.kubectl(*command, check=False), 60)


def verdict(cluster: SessionCluster, watch: NamespaceWatch, name: str, timeout_seconds: float = END_SECONDS) -> Status:
    """The status at the end; what was seen until then is written down."""
    status = finished(cluster, NAMESPACE, name, timeout_seconds)
    run = cluster.get("disttest", name, NAMESPACE)
    assert run is not None
    evidence.write(name, watch, run, real_nodes.report_of(cluster, name))
    return status


def disruptions(watch: NamespaceWatch, name: str) -> set[str]:
    return {
        condition["reason"]
        for one in watch.of("pods")
        if one.object["metadata"]["labels"].get("disttest.dev/name") == name
        for condition in one.object["status"].get("conditions") or ()
        if condition["type"] == "DisruptionTarget"
    }


def test_a_case_that_takes_too_much_memory_fails_with_that_reason(
    installed: SessionCluster, watch: NamespaceWatch
) -> None:
    """The kernel kills the rank, by the container's cgroup; the agent lives and says whose case it was."""
    limits = {"limits": {"memory": "3Gi"}, "requests": {"memory": "1Gi"}}
    start(installed, "hungry", HUNGRY, template={"spec": {"resources": limits}})
    status = verdict(installed, watch, "hungry", 120)
    assert status["verdict"] == "TestsFailed", status
    assert "memory" in status["failures"][0]["message"], status["failures"]


def test_a_flood_of_output_does_not_wash_the_report_away(installed: SessionCluster) -> None:
    """Four ranks write 20 MiB each. Of a log that grows beyond 10 MiB a kubelet gives the newest file only."""
    start(installed, "loud", LOUD)
    status = finished(installed, NAMESPACE, "loud", 120)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status["message"]
    for pod in real_nodes.pods_of(installed, "loud"):
        log = installed.kubectl("logs", "-n", NAMESPACE, pod["metadata"]["name"])
        assert "the rest is dropped" in log
        assert len(log) <= limits.LOG_BYTES


def test_a_pod_that_gets_too_little_memory_to_start_ends_with_that_reason(
    installed: SessionCluster, watch: NamespaceWatch
) -> None:
    start(installed, "starved", HUNGRY, template={"spec": {"resources": {"limits": {"memory": "64Mi"}}}})
    status = verdict(installed, watch, "starved", 120)
    assert (status["verdict"], status["reason"]) == ("Errored", "OutOfMemory"), status["message"]


@pytest.fixture
def victim(installed: SessionCluster) -> str:
    """The node on which the operator does not run."""
    return next(node for node in real_nodes.REAL_NODES if node != real_nodes.node_of_operator(installed))


def test_a_drained_node_is_no_test_failure(installed: SessionCluster, watch: NamespaceWatch, victim: str) -> None:
    start_sleepy(installed, "drained")
    selector = "--pod-selector=disttest.dev/name=drained"
    try:
        installed.kubectl("drain", victim, selector, "--force", "--delete-emptydir-data", "--timeout=60s")
        status = verdict(installed, watch, "drained")
    finally:
        installed.kubectl("uncordon", victim)
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "Disrupted"), status["message"]
    assert disruptions(watch, "drained") == {"EvictionByEvictionAPI"}


def test_an_image_that_cannot_be_pulled_is_named(installed: SessionCluster, watch: NamespaceWatch) -> None:
    image = "registry.devcluster/disttest-runner:none"
    installed.apply(disttest(NAMESPACE, "no-image", image=image, timeouts=TIMEOUTS))
    status = verdict(installed, watch, "no-image", 90)
    assert (status["verdict"], status["reason"]) == ("Errored", "ImageUnavailable"), status["message"]
    assert image in status["message"]


def test_a_kubelet_that_is_restarted_disturbs_no_run(
    installed: SessionCluster, watch: NamespaceWatch, victim: str
) -> None:
    start_sleepy(installed, "restarted", seconds=15)
    signal_kubelet(installed, victim, signal.SIGKILL)
    status = verdict(installed, watch, "restarted", 90)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status["message"]
    real_nodes.wait_until_ready(installed, victim)


def test_a_node_whose_kubelet_falls_silent_is_blamed(
    installed: SessionCluster, watch: NamespaceWatch, victim: str
) -> None:
    start_sleepy(installed, "silent")
    signal_kubelet(installed, victim, signal.SIGSTOP)
    try:
        status = verdict(installed, watch, "silent", LOST_SECONDS)
    finally:
        signal_kubelet(installed, victim, signal.SIGCONT)
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "NodeLost"), status["message"]
    assert victim in status["message"]
    assert disruptions(watch, "silent") == {"DeletionByTaintManager"}
    real_nodes.wait_until_ready(installed, victim)


def test_a_node_that_is_deleted_is_blamed(installed: SessionCluster, watch: NamespaceWatch, victim: str) -> None:
    start_sleepy(installed, "deleted")
    status = delete_node(installed, watch, victim, "deleted")
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "NodeLost"), status["message"]
    assert victim in status["message"]
    assert disruptions(watch, "deleted") == {"DeletionByPodGC"}


def test_the_operators_own_node_may_be_the_one_that_is_deleted(
    installed: SessionCluster, watch: NamespaceWatch
) -> None:
    """The next operator did not see the pod end. The Job did, but does not contain the cause."""
    start_sleepy(installed, "deleted-with-operator")
    status = delete_node(installed, watch, real_nodes.node_of_operator(installed), "deleted-with-operator")
    assert status["verdict"] == "InfraFailed", status
    assert status["reason"] in ("NodeLost", "Disrupted"), status["message"]


def delete_node(cluster: SessionCluster, watch: NamespaceWatch, node: str, name: str) -> Status:
    cluster.kubectl("delete", "node", node)
    try:
        return verdict(cluster, watch, name, LOST_SECONDS)
    finally:
        signal_kubelet(cluster, node, signal.SIGKILL)  # a new one registers the node again
        real_nodes.wait_until_ready(cluster, node)


def signal_kubelet(cluster: SessionCluster, node: str, number: signal.Signals) -> None:
    assert cluster.dev is not None
    cluster.dev.signal(f"{node}.kubelet", number)
