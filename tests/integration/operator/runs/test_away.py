"""Operators that are away for a while: nothing that runs is harmed, and nothing is done twice."""

import functools
from typing import Any

import pytest

from tests.support import patience
from tests.support.clusters.cluster import SessionCluster
from tests.support.clusters.stub_nodes import stub_template
from tests.support.operators.operator import (
    StartOperator,
    disttest,
    finished,
    leads,
    ledger,
    reaches_phase,
    run_counts,
)

TAKE_OVER_SECONDS = 17
ENDS_SECONDS = 10  # of one that continues and finds the Lease lost
KINDS = ("disttests", "disttestseries", "jobs", "services", "configmaps", "events.events.k8s.io")
HERE = {"Passed": 4, "InfraFailed": 2}


@pytest.mark.soak  # half a minute of waiting for a Lease
def test_pending_work_of_a_frozen_operator_has_no_effect_when_it_continues(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    with start_operator(log="frozen.log") as first:
        cluster.wait_until("the first is active", functools.partial(leads, first), 25)
        with start_operator(log="waking.log") as second:
            going = [run(namespace, f"going-{number}", seconds=8 + number) for number in range(2)]
            lost = [run(namespace, f"lost-{number}", seconds=4 + number, end="crash") for number in range(2)]
            cluster.apply([*going, *lost])
            for manifest in (*going, *lost):
                reaches_phase(cluster, namespace, manifest["metadata"]["name"], "Running")
            with first.frozen():
                # The frozen operator receives their creation too, as its first events when it continues.
                fresh = [run(namespace, f"fresh-{number}") for number in range(2)]
                cluster.apply(fresh)
                cluster.wait_until("the second is active", functools.partial(leads, second), TAKE_OVER_SECONDS)
                for manifest in (*going, *lost, *fresh):
                    finished(cluster, namespace, manifest["metadata"]["name"])
                for name in [manifest["metadata"]["name"] for manifest in fresh]:
                    cluster.kubectl("delete", "job", f"{name}-a1", "-n", namespace, "--cascade=foreground")
                cluster.wait_until("the ledger is settled", lambda: settled(cluster, namespace), 20)
                before = everything(cluster, namespace)
            cluster.wait_until("the first has ended", lambda: first.process.poll() is not None, ENDS_SECONDS)
            assert first.process.returncode == 1, first.log.read_text()[-4000:]
            assert everything(cluster, namespace) == before
            assert second.process.poll() is None
            assert leads(second)
    assert verdicts(cluster, namespace) == HERE
    assert {verdict: count for (verdict, _), count in run_counts(ledger(cluster, namespace, "here")).items()} == HERE


def test_an_operator_that_was_away_while_runs_ended_gives_them_their_verdicts(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    ends = {"pass": "Passed", "fail": "TestsFailed", "crash": "InfraFailed", "mute": "InfraFailed"}
    with start_operator(log="leaves.log"):
        manifests = [
            disttest(namespace, f"they-{end}", series="away", template=stub_template(end=end, seconds=6))
            for end in ends
        ]
        cluster.apply([*manifests, disttest(namespace, "hangs", series="away", template=stub_template(end="hang"))])
        for manifest in manifests:
            reaches_phase(cluster, namespace, manifest["metadata"]["name"], "Running")
        reaches_phase(cluster, namespace, "hangs", "Running")
    cluster.kubectl(
        "delete", "disttest", "hangs", "-n", namespace, "--cascade=foreground", f"--timeout={patience.whole(60)}s"
    )
    assert cluster.find("pods", namespace, "disttest.dev/name=hangs") == []
    cluster.wait_until("all pods have ended", lambda: not going(cluster, namespace), 30)
    assert {(one.get("status") or {}).get("verdict") for one in cluster.find("disttests", namespace)} == {None}
    with start_operator(log="comes.log"):
        for end, verdict in ends.items():
            assert finished(cluster, namespace, f"they-{end}")["verdict"] == verdict
    totals = run_counts(ledger(cluster, namespace, "away"))
    assert sum(totals.values()) == len(ends), totals


@pytest.mark.soak  # three minutes of waiting
def test_a_gang_without_an_operator_is_ended_by_the_deadline_of_its_job(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    """Without an operator its nodes are not held forever; with the next one the run has its verdict."""
    timeouts = {"queueSeconds": 10, "rendezvousSeconds": 5, "caseSeconds": 5, "runSeconds": 5}
    with start_operator(log="left.log"):
        cluster.apply(disttest(namespace, "left", series="left", template=stub_template(end="hang"), timeouts=timeouts))
        reaches_phase(cluster, namespace, "left", "Running")
    (job,) = cluster.find("jobs", namespace)
    cluster.wait_until(
        "its pods are gone", lambda: not going(cluster, namespace), job["spec"]["activeDeadlineSeconds"] + 60
    )
    assert not (cluster.get("disttest", "left", namespace) or {})["status"].get("verdict")
    with start_operator(log="found.log"):
        status = finished(cluster, namespace, "left")
    assert (status["verdict"], status["reason"]) == ("TimedOut", "RunTimeout"), status
    assert "The Job exceeded its deadline" in status["message"]
    assert sum(run_counts(ledger(cluster, namespace, "left")).values()) == 1


def run(namespace: str, name: str, **words: Any) -> dict[str, Any]:
    """A lost one gets a second gang, which is lost as well."""
    retries = {"infrastructure": 1 if words.get("end") == "crash" else 0}
    return disttest(namespace, name, series="here", template=stub_template(**words), retries=retries)


def settled(cluster: SessionCluster, namespace: str) -> bool:
    counted = ledger(cluster, namespace, "here")
    return counted.get("runCount") == sum(HERE.values()) and counted.get("pending") == []


def everything(cluster: SessionCluster, namespace: str) -> dict[str, str]:
    """What the operators write, by version: a write that changes something changes it."""
    return {
        f"{kind}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for kind in KINDS
        for one in cluster.find(kind, namespace)
        if kind != "events.events.k8s.io" or one["regarding"].get("kind") == "DistTest"
    }


def verdicts(cluster: SessionCluster, namespace: str) -> dict[str, int]:
    found = [one["status"]["verdict"] for one in cluster.find("disttests", namespace)]
    return {verdict: found.count(verdict) for verdict in set(found)}


def going(cluster: SessionCluster, namespace: str) -> list[str]:
    pods = cluster.find("pods", namespace)
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] not in {"Succeeded", "Failed"}]
