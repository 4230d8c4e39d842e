"""Runs that are deleted at any time leave no objects, and finished runs get no new ones."""

import asyncio
import random

import pytest

from tests.support import patience
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.clusters.stub_nodes import stub_template
from tests.support.operators.deletions import Deletions
from tests.support.operators.operator import OperatorProcess, disttest, finished, run_counts

LEFT_SECONDS = 90
OURS = ("jobs", "services", "pods", "configmaps")


@pytest.mark.parametrize("runs", [24, pytest.param(200, marks=pytest.mark.soak)])
def test_nothing_is_left_of_runs_deleted_in_every_phase(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, stub_nodes: tuple[str, ...], runs: int
) -> None:
    deletions = Deletions(cluster.kubeconfig, namespace, random.Random(runs))  # noqa: S311 - moments, no secrets
    asyncio.run(deletions.play(runs))
    cluster.wait_until("nothing is left", lambda: left(cluster, namespace) == [], LEFT_SECONDS)
    cluster.wait_until("the ledgers are settled", lambda: not pending(cluster, namespace), 20)
    # Another run shows that the operator is well, and that it has done what it still had to do.
    cluster.apply(disttest(namespace, "after", template=stub_template()))
    assert finished(cluster, namespace, "after")["verdict"] == "Passed"
    assert {name.rpartition("/")[2].partition("-")[0] for name in left(cluster, namespace)} <= {"after"}
    assert kept(cluster, namespace) == listed(cluster, namespace), "a series owns exactly what its ledger lists"
    print(f"deleted in: {deletions.phases}")
    counted = {
        run["uid"]: run["verdict"]
        for one in cluster.find("disttestseries", namespace)
        if one["metadata"]["name"] != "adhoc"
        for run in one["status"]["runs"]
    }
    total = sum(
        sum(run_counts(one["status"]).values())
        for one in cluster.find("disttestseries", namespace)
        if one["metadata"]["name"] != "adhoc"
    )
    assert total == len(counted), "no run is counted twice"
    assert deletions.verdicts.items() <= counted.items(), "who had a verdict is counted, with that verdict"
    # Between ledger and status there is a moment in which a run is counted and does not show it yet.
    assert counted.keys() - deletions.verdicts.keys() <= deletions.nearly_finished


def test_objects_of_a_finished_run_deleted_by_hand_are_not_created_again(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    cluster.apply(disttest(namespace, "done", template=stub_template()))
    status = finished(cluster, namespace, "done")
    for what in ("job/done-a1", "service/done-a1", f"configmap/{status['report']['configMap']}"):
        cluster.kubectl("delete", what, "-n", namespace, "--cascade=foreground", f"--timeout={patience.whole(60)}s")
    cluster.kubectl("annotate", "disttest", "done", "-n", namespace, "look=again")
    cluster.apply(disttest(namespace, "after", template=stub_template()))
    finished(cluster, namespace, "after")
    assert [name for name in left(cluster, namespace) if "/done" in name] == []
    after = cluster.get("disttest", "done", namespace)
    assert after is not None
    assert after["status"] == status


def left(cluster: SessionCluster, namespace: str) -> list[str]:
    """Objects of ours, by owner or label; without reports that a series keeps."""
    return [
        f"{kind}/{one['metadata']['name']}"
        for kind in OURS
        for one in cluster.find(kind, namespace)
        if {"DistTest", "Job"} & owners(one)
        or ("disttest.dev/name" in (one["metadata"].get("labels") or {}) and owners(one) != {"DistTestSeries"})
    ]


def owners(body: Manifest) -> set[str]:
    """Their kinds."""
    return {owner["kind"] for owner in body["metadata"].get("ownerReferences") or ()}


def kept(cluster: SessionCluster, namespace: str) -> set[str]:
    found = cluster.find("configmaps", namespace)
    return {one["metadata"]["name"] for one in found if "DistTestSeries" in owners(one)}


def listed(cluster: SessionCluster, namespace: str) -> set[str]:
    """Of the available ones: a run can be deleted after it is counted and before its report is retained."""
    found = {one["metadata"]["name"] for one in cluster.find("configmaps", namespace)}
    named = {
        run["report"]
        for one in cluster.find("disttestseries", namespace)
        for run in (one.get("status") or {}).get("runs") or ()
        if "report" in run
    }
    return found & named


def pending(cluster: SessionCluster, namespace: str) -> bool:
    return any((one.get("status") or {}).get("pending") for one in cluster.find("disttestseries", namespace))
