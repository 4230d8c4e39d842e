"""Reports that outlive their runs, with the real garbage collector, which alone deletes them."""

import base64
import gzip
from collections.abc import Iterator
from typing import Any

import pytest

from disttest_contract.results.report import Report
from tests.support import patience
from tests.support.clusters.cluster import SessionCluster
from tests.support.clusters.stub_nodes import stub_template
from tests.support.operators.operator import OperatorProcess, StartOperator, disttest, finished, ledger

KEPT, RUNS = 2, 3


@pytest.fixture(scope="module")
def keeper(start_operator: StartOperator) -> Iterator[OperatorProcess]:
    with start_operator(f"--retained-reports={KEPT}", "--fixed-nodes", log="keeper.log") as process:
        yield process


def test_the_newest_reports_of_a_series_stay_when_their_runs_go_until_the_series_goes(
    cluster: SessionCluster, keeper: OperatorProcess, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    names = [f"night-{number}" for number in range(RUNS)]
    cluster.apply([a_run(namespace, name) for name in names])
    for name in names:
        assert finished(cluster, namespace, name)["verdict"] == "Passed"
    newest = cluster.wait_until("the others were given back", lambda: two_are_listed(cluster, namespace), 20)
    assert sorted(reports(cluster, namespace)) == [f"{name}-report" for name in names], "no run loses its report"

    cluster.kubectl(
        "delete", "dt", newest[0], "-n", namespace, "--cascade=foreground", f"--timeout={patience.whole(60)}s"
    )
    cluster.kubectl("delete", "dt", *set(names) - {newest[0]}, "-n", namespace)
    cluster.wait_until(
        "only those that are kept are there", lambda: sorted(reports(cluster, namespace)) == newest_of(newest)
    )
    for run in (run for run in ledger(cluster, namespace, "nights")["runs"] if "report" in run):
        assert read(cluster, namespace, run["report"]).name == run["name"]

    # A run may have the name of one that is gone and whose report is kept. The oldest of those that are kept goes.
    cluster.apply(a_run(namespace, newest[1]))
    status = finished(cluster, namespace, newest[1])
    body = cluster.get("disttest", newest[1], namespace)
    assert body is not None
    uid = body["metadata"]["uid"]
    assert status["report"]["configMap"] == f"{newest[1]}-report-{uid[:8]}"
    left = sorted((f"{newest[1]}-report", status["report"]["configMap"]))
    cluster.wait_until("the oldest is gone", lambda: sorted(reports(cluster, namespace)) == left, 20)
    assert read(cluster, namespace, status["report"]["configMap"]).uid == uid

    cluster.kubectl("delete", "dts", "nights", "-n", namespace)
    cluster.wait_until("the other is its run's alone", lambda: reports(cluster, namespace) == left[1:], 20)
    cluster.kubectl("delete", "dt", newest[1], "-n", namespace)
    cluster.wait_until("nothing is left", lambda: reports(cluster, namespace) == [], 20)


def a_run(namespace: str, name: str) -> dict[str, Any]:
    return disttest(namespace, name, series="nights", template=stub_template())


def two_are_listed(cluster: SessionCluster, namespace: str) -> list[str]:
    """Their runs, once the ledger lists only retained reports."""
    status = ledger(cluster, namespace, "nights")
    named = [run["name"] for run in status.get("runs") or () if "report" in run]
    return named if len(named) == KEPT and not status["pending"] else []


def newest_of(names: list[str]) -> list[str]:
    return sorted(f"{name}-report" for name in names)


def reports(cluster: SessionCluster, namespace: str) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.find("configmaps", namespace) if "binaryData" in one]


def read(cluster: SessionCluster, namespace: str, name: str) -> Report:
    body = cluster.get("configmap", name, namespace)
    assert body is not None
    return Report.loads(gzip.decompress(base64.b64decode(body["binaryData"]["report.json.gz"])))
