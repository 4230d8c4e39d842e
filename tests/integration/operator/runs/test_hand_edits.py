"""Manual changes to objects of a running run: it continues and gets its own verdict."""

import json
from typing import Any

import pytest

from tests.support.clusters.cluster import KubectlError, SessionCluster
from tests.support.clusters.stub_nodes import stub_template
from tests.support.operators.operator import (
    OperatorProcess,
    disttest,
    finished,
    ledger,
    patch_spec,
    reaches_phase,
    run_counts,
)

LABELS = tuple(f"disttest.dev/{name}-" for name in ("name", "uid", "attempt", "series"))
MANAGED_BY = "app.kubernetes.io/managed-by-"


def gang(cluster: SessionCluster, namespace: str, name: str, seconds: float) -> list[str]:
    """The pods of a run whose containers end after a number of seconds."""
    retries = {"infrastructure": 2}
    cluster.apply(disttest(namespace, name, series=name, template=stub_template(seconds=seconds), retries=retries))
    reaches_phase(cluster, namespace, name, "Running")
    pods = cluster.find("pods", namespace, f"disttest.dev/name={name}")
    return [pod["metadata"]["name"] for pod in pods]


def unlabel(cluster: SessionCluster, namespace: str, kind: str, *names: str) -> None:
    cluster.kubectl("label", kind, *names, "-n", namespace, *LABELS, MANAGED_BY)


def edit(cluster: SessionCluster, namespace: str, what: str, **status: Any) -> None:
    flags = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    cluster.kubectl("patch", what, "-n", namespace, *flags)


def passed_once(cluster: SessionCluster, namespace: str, name: str, jobs: set[str]) -> None:
    status = finished(cluster, namespace, name)
    assert (status["verdict"], status["attempt"]) == ("Passed", 1), status
    assert run_counts(ledger(cluster, namespace, name)) == {("Passed", "AllCasesPassed"): 1}
    assert {job["metadata"]["uid"] for job in cluster.find("jobs", namespace)} == jobs


def uids(cluster: SessionCluster, namespace: str) -> set[str]:
    return {job["metadata"]["uid"] for job in cluster.find("jobs", namespace)}


def test_pods_and_a_job_without_our_labels_are_no_lost_gang(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    pods = gang(cluster, namespace, "bare", 5)
    jobs = uids(cluster, namespace)
    unlabel(cluster, namespace, "job", "bare-a1")
    unlabel(cluster, namespace, "pod", *pods)
    passed_once(cluster, namespace, "bare", jobs)


def test_a_cancelled_run_takes_a_job_without_labels_along(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    gang(cluster, namespace, "dropped", 60)
    unlabel(cluster, namespace, "job", "dropped-a1")
    patch_spec(cluster, namespace, "dropped", cancel=True)
    assert finished(cluster, namespace, "dropped")["verdict"] == "Cancelled"
    cluster.wait_until("its pods are gone", lambda: not cluster.find("pods", namespace), 40)


def test_a_status_and_a_ledger_that_are_edited_in_mid_run_are_put_right(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    gang(cluster, namespace, "edited", 7)
    jobs = uids(cluster, namespace)
    with pytest.raises(KubectlError, match="a verdict requires phase Finished"):
        edit(cluster, namespace, "disttest/edited", verdict="Passed")
    year_zero = "0000-01-01T00:00:00Z"
    nonsense = {"name": "Not A Node!", "reason": "x"}
    edit(cluster, namespace, "disttest/edited", attempt=7, phase="Finished", startTime=year_zero, conditions=[])
    edit(cluster, namespace, "disttest/edited", suspectNodes=[nonsense])

    def is_right() -> bool:
        status = (cluster.get("disttest", "edited", namespace) or {})["status"]
        return status["phase"] == "Running" and status["attempt"] == 1 and bool(status["conditions"])

    cluster.wait_until("the status is right again", is_right, 5)
    uid = (cluster.get("disttest", "edited", namespace) or {})["metadata"]["uid"]
    series = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTestSeries"}
    cluster.apply(series | {"metadata": {"name": "edited", "namespace": namespace}})
    entry = {"uid": uid, "name": "edited", "verdict": "TestsFailed", "reason": "Invented"}
    edit(cluster, namespace, "disttestseries/edited", pending=[entry], runs=[{"uid": "x", "verdict": "Passed"}])
    passed_once(cluster, namespace, "edited", jobs)
