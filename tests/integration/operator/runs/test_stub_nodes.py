"""Stub nodes report the same as real agents, without running anything."""

import time

import pytest

from tests.support.clusters.cluster import SessionCluster
from tests.support.clusters.stub_nodes import silence, stub_template
from tests.support.operators.operator import OperatorProcess, disttest, finished, reaches_phase


@pytest.mark.parametrize(
    ("words", "verdict", "reason"),
    [
        ({"end": "pass", "cases": 3}, "Passed", "AllCasesPassed"),
        ({"end": "fail", "cases": 3}, "TestsFailed", "CasesFailed"),
        ({"end": "crash"}, "InfraFailed", "PodKilled"),
        ({"end": "mute"}, "InfraFailed", "ReportMissing"),
    ],
    ids=lambda value: value.get("end", "") if isinstance(value, dict) else "",
)
def test_a_run_on_stub_nodes_ends_as_its_annotations_say(
    cluster: SessionCluster,
    namespace: str,
    operator: OperatorProcess,
    stub_nodes: tuple[str, ...],
    words: dict[str, str],
    verdict: str,
    reason: str,
) -> None:
    cluster.apply(disttest(namespace, "stub", template=stub_template(**words)))
    status = finished(cluster, namespace, "stub")
    assert (status["verdict"], status["reason"]) == (verdict, reason), status
    if verdict == "Passed":
        assert status["cases"]["passed"] == 3


def test_a_stub_pod_that_hangs_and_is_deleted_ends_after_its_stop_seconds(
    cluster: SessionCluster, namespace: str, operator: OperatorProcess, stub_nodes: tuple[str, ...]
) -> None:
    cluster.apply(disttest(namespace, "hangs", template=stub_template(end="hang", stop_seconds=3)))
    reaches_phase(cluster, namespace, "hangs", "Running")
    started = time.monotonic()
    cluster.kubectl("delete", "disttest", "hangs", "--namespace", namespace, "--cascade=foreground")
    assert time.monotonic() - started > 2.5
    assert cluster.find("pod", namespace) == []


def test_a_stub_node_that_is_silent_says_nothing_until_it_finds_its_voice_again(
    cluster: SessionCluster, namespace: str, operator: OperatorProcess, stub_nodes: tuple[str, ...]
) -> None:
    template = stub_template(seconds=3)
    cluster.apply(disttest(namespace, "waits", template=template))
    reaches_phase(cluster, namespace, "waits", "Running")
    for node in stub_nodes:
        silence(cluster, node)
    time.sleep(4)  # nothing is to happen: there is no condition to wait for
    assert not (cluster.get("disttest", "waits", namespace) or {})["status"].get("verdict")
    for node in stub_nodes:
        silence(cluster, node, is_silent=False)
    assert finished(cluster, namespace, "waits")["verdict"] == "Passed"
