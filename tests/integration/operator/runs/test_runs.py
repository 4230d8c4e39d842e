"""Whole runs: from a DistTest to its verdict, report, ledger and metrics."""

import base64
import gzip
import hashlib
import itertools
import json
from datetime import datetime

from disttest_contract.outcomes import Verdict
from disttest_contract.results.report import Report
from tests.support import patience
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import (
    OperatorProcess,
    Status,
    config_map,
    disttest,
    events_with,
    finished,
    ledger,
    reaches_phase,
    run_counts,
)

SLOW = """
import time

def test_slow():
    time.sleep(120)
"""

STUCK = """
import time, torch
import torch.distributed as dist

def test_stuck(gang, process_group):
    if gang.rank == 1:
        time.sleep(1000)
    dist.all_reduce(torch.ones(1))
"""

STEADY = """
import time
import pytest

@pytest.mark.parametrize("number", range(12))
def test_steady(number):
    time.sleep(1.7)
"""


def test_a_run_ends_passed_with_status_report_ledger_metrics_and_events(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    suites, asked = [{"name": "collectives", "select": "float32"}], {"collective": "all_reduce", "sizeBytes": 4096}
    thresholds = [asked | {"minBusBandwidthBytesPerSecond": 1}]
    cluster.apply(disttest(namespace, "good", series="smoke", suites=suites, thresholds=thresholds))
    status = finished(cluster, namespace, "good", timeout_seconds=90)

    assert (status["verdict"], status["reason"], status["phase"]) == ("Passed", "AllCasesPassed", "Finished"), status
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert conditions == dict.fromkeys(("GangReady", "ResultsCollected", "Complete", "Finished"), "True")
    assert status["cases"]["passed"] > 10
    assert status["cases"]["failed"] == 0
    assert status["suites"][0]["name"] == "collectives"
    reached, *others = status["bandwidth"]
    assert reached == asked | {
        "dtype": "float32",
        "busBandwidthBytesPerSecond": reached["busBandwidthBytesPerSecond"],
        "thresholdBytesPerSecond": 1,
        "ok": True,
    }
    assert ("send_recv_pair", 2 << 20) in [(row["collective"], row["sizeBytes"]) for row in others]
    assert (status["attempt"], status["series"], status["observedGeneration"]) == (1, "smoke", 1)
    assert set(status["stepSeconds"]) == {"queued", "scheduled", "pulled", "joined", "ran", "collected"}
    assert status["stepSeconds"]["collected"] <= 1.0, "from the end of the last case to the verdict"
    cluster.kubectl("wait", "--for=condition=Finished", "--timeout=1s", "-n", namespace, "dt/good")

    stored = cluster.get("configmap", status["report"]["configMap"], namespace)
    assert stored is not None
    raw = gzip.decompress(base64.b64decode(stored["binaryData"]["report.json.gz"]))
    assert hashlib.sha256(raw).hexdigest() == status["report"]["sha256"]
    report = Report.loads(raw)
    assert report.verdict is Verdict.PASSED
    assert report.counts.to_json() == status["cases"]

    counted = cluster.wait_until(
        "the ledger is settled", lambda: (seen := ledger(cluster, namespace, "smoke")).get("pending") == [] and seen, 10
    )
    assert counted["runCount"] == 1
    assert run_counts(counted) == {("Passed", "AllCasesPassed"): 1}
    assert counted["runs"][0]["name"] == "good"
    metrics = operator.metrics()
    labels = f'{{namespace="{namespace}",reason="AllCasesPassed",series="smoke",verdict="Passed"}}'
    assert metrics[f"disttest_runs_total{labels}"] == 1.0
    assert [reason for reason, _ in events_with("Passed", cluster, namespace)] == ["Created", "GangReady", "Passed"]


def test_how_far_a_run_is_moves_in_its_status_every_ten_seconds_and_is_gone_at_the_end(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(config_map(namespace, "steady", STEADY))
    suites = [{"name": "steady", "configMap": {"name": "steady"}}]
    before = operator.metrics()
    cluster.apply(disttest(namespace, "steady", nodes=1, suites=suites))
    seen: dict[str, Status] = {}  # by the time at which it was written
    shown: list[str] = []

    def probe() -> Status | None:
        status: Status = (cluster.get("disttest", "steady", namespace) or {}).get("status") or {}
        if how_far := status.get("progress"):
            seen[how_far["time"]] = how_far
            if how_far.get("currentCase") and not shown:
                shown.append(cluster.kubectl("get", "dt", "steady", "-n", namespace, "-o", "wide"))
        return status if status.get("verdict") else None

    status = cluster.wait_until("the run is finished", probe, 90)
    assert (status["verdict"], status["cases"]["passed"]) == ("Passed", 12), status
    assert "progress" not in status
    times = sorted(map(datetime.fromisoformat, seen))
    assert all((later - earlier).total_seconds() >= 10 for earlier, later in itertools.pairwise(times)), times
    counts = [seen[time]["casesDone"] for time in sorted(seen)]
    assert len(counts) > 1, "it moved"
    assert counts == sorted(counts)
    assert counts[-1] > 0
    last = seen[max(seen)]
    assert (last["step"], last["suite"], last["casesTotal"], last["nodesJoined"]) == ("running", "steady", 12, 1)
    assert last["cases"]["passed"] == last["casesDone"]
    assert last["currentCase"] == f"test_own.py::test_steady[{last['casesDone']}]"
    assert any("test_own.py::test_steady[" in text and "CURRENT" in text for text in shown)
    metrics, writes = operator.metrics(), "disttest_progress_writes_total"
    assert metrics[writes] - before[writes] == len(seen), "no other write was made"
    cluster.wait_until("its log is let go", lambda: operator.metrics()["disttest_followed_logs"] == 0, 10)


def test_a_failed_case_of_own_files_is_red_and_named(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(config_map(namespace, "own", "def test_good():\n    pass\n\ndef test_bad():\n    assert 1 == 2\n"))
    cluster.apply(disttest(namespace, "bad", suites=[{"name": "own", "configMap": {"name": "own"}}]))
    status = finished(cluster, namespace, "bad")
    assert (status["verdict"], status["reason"]) == ("TestsFailed", "CasesFailed"), status
    assert (status["cases"]["passed"], status["cases"]["failed"]) == (1, 1)
    assert status["failures"][0]["case"].endswith("test_bad")
    assert status["failures"][0]["suite"] == "own"
    assert run_counts(ledger(cluster, namespace, "adhoc")) == {("TestsFailed", "CasesFailed"): 1}


def test_a_run_that_times_out_names_the_case_that_hangs_and_who_waits_for_whom(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    """The case has as long as the run. On a busy machine a short run may time out before the case starts."""
    cluster.apply(config_map(namespace, "stuck", STUCK))
    suites = [{"name": "stuck", "configMap": {"name": "stuck"}}]
    for seconds in (12, 36, 108):
        name = f"stuck-{seconds}"
        timeouts = {"queueSeconds": 60, "rendezvousSeconds": 60, "caseSeconds": seconds, "runSeconds": seconds}
        cluster.apply(disttest(namespace, name, suites=suites, timeouts=timeouts))
        status = finished(cluster, namespace, name, timeout_seconds=seconds + 120)
        assert (status["verdict"], status["reason"]) == ("TimedOut", "RunTimeout"), status
        if status["failures"]:
            break
    [failure] = status["failures"]
    assert (failure["case"], failure["outcome"]) == ("test_own.py::test_stuck", "notRun")
    assert failure["message"].startswith("still running after ")
    assert "ranks 0, 2, 3 wait in all_reduce number 1 of the default group; rank 1 on" in failure["message"]
    assert status["message"].endswith("; still running: stuck: test_own.py::test_stuck")
    assert status["cases"] == status["cases"] | {"total": 1, "notRun": 1}


def test_deletion_in_the_foreground_returns_when_the_pods_are_gone(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(config_map(namespace, "slow", SLOW))
    cluster.apply(disttest(namespace, "deleted", suites=[{"name": "slow", "configMap": {"name": "slow"}}]))
    reaches_phase(cluster, namespace, "deleted", "Running")
    cluster.kubectl(
        "delete", "dt", "deleted", "-n", namespace, "--cascade=foreground", f"--timeout={patience.whole(60)}s"
    )
    assert cluster.find("pods", namespace) == []
    assert cluster.find("jobs", namespace) == []
    assert run_counts(ledger(cluster, namespace, "adhoc")) == {}, "a run deleted before its verdict is not counted"


def test_a_job_deleted_by_hand_ends_the_run_as_an_infrastructure_failure(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(config_map(namespace, "slow", SLOW))
    cluster.apply(disttest(namespace, "robbed", suites=[{"name": "slow", "configMap": {"name": "slow"}}]))
    reaches_phase(cluster, namespace, "robbed", "Running")
    cluster.kubectl("delete", "job", "robbed-a1", "-n", namespace, "--wait=false")
    status = finished(cluster, namespace, "robbed")
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "JobDeleted"), status


def test_an_evicted_pod_is_a_disruption_and_no_failure_of_a_test(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(config_map(namespace, "slow", SLOW))
    cluster.apply(disttest(namespace, "evicted", suites=[{"name": "slow", "configMap": {"name": "slow"}}]))
    reaches_phase(cluster, namespace, "evicted", "Running")
    pods = cluster.find("pods", namespace, "batch.kubernetes.io/job-completion-index=1")
    name = pods[0]["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    cluster.kubectl(
        *("create", "--raw", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", "-f", "-"),
        input=json.dumps(eviction),
    )
    status = finished(cluster, namespace, "evicted")
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "Disrupted"), status


def test_a_finished_run_goes_when_its_time_to_live_is_over(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    run = disttest(namespace, "brief", suites=[{"name": "no-such-suite"}], ttlSecondsAfterFinished=2)
    cluster.apply(run)
    cluster.wait_until("the run is gone", lambda: cluster.get("disttest", "brief", namespace) is None, 20)
    assert run_counts(ledger(cluster, namespace, "adhoc")) == {("Errored", "UnknownSuite"): 1}
