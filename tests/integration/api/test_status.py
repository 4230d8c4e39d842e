"""What the operator may write, and how it shows."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from tests.data.good_manifest import GOOD
from tests.support.clusters.api import Api

COUNTS = dict.fromkeys(
    (
        "total",
        "passed",
        "failed",
        "errored",
        "crashed",
        "hung",
        "skipped",
        "xfailed",
        "xpassed",
        "notRun",
        "flaky",
        "quarantined",
    ),
    2,
)
STATUS: Mapping[str, Any] = {
    "observedGeneration": 1,
    "phase": "Finished",
    "verdict": "TestsFailed",
    "reason": "CasesFailed",
    "message": "2 of 22 cases failed",
    "series": "nightly-2x8",
    "gpus": 16,
    "attempt": 1,
    "duration": "1m1s",
    "durationSeconds": 61.25,
    "startTime": "2026-01-02T03:04:05Z",
    "completionTime": "2026-01-02T03:05:06Z",
    "conditions": [
        {
            "type": "Finished",
            "status": "True",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:05:06Z",
            "reason": "CasesFailed",
            "message": "2 of 22 cases failed",
        }
    ],
    "stepSeconds": {"queued": 0.5, "scheduled": 0.1, "pulled": 1, "joined": 4.2, "ran": 50, "collected": 0.4},
    "cases": COUNTS,
    "suites": [
        {
            "name": "collectives",
            "verdict": "TestsFailed",
            "reason": "CasesFailed",
            "message": "2 cases failed",
            "seconds": 50.5,
            "cases": COUNTS,
        }
    ],
    "failures": [
        {
            "case": "collectives::test_all_reduce[float32]",
            "suite": "collectives",
            "outcome": "failed",
            "ranks": [0, 9],
            "nodes": ["node-0", "node-1"],
            "message": "assert 3 == 4",
            "seconds": 1.5,
            "flaky": False,
            "quarantined": False,
        }
    ],
    "bandwidth": [
        {"collective": "all_gather", "sizeBytes": 1048576, "thresholdBytesPerSecond": 400000000000, "ok": False},
        {
            "collective": "all_reduce",
            "dtype": "bfloat16",
            "sizeBytes": 1048576,
            "busBandwidthBytesPerSecond": 380500000000.5,
            "thresholdBytesPerSecond": 400000000000,
            "ok": False,
        },
        {
            "collective": "send_recv_pair",
            "dtype": "int64",
            "sizeBytes": 8,
            "busBandwidthBytesPerSecond": 0.25,
            "ok": True,
        },
    ],
    "report": {"configMap": "finished-report", "sha256": "ab" * 32},
}


@pytest.fixture(scope="session")
def finished(api: Api) -> str:
    """A run with the fullest status that the operator could write."""
    manifest = copy.deepcopy(dict(GOOD)) | {"metadata": {"name": "finished"}}
    api.create(manifest)
    status, answer = api.patch(api.path("finished/status"), {"status": STATUS}, query="?fieldValidation=Strict")
    assert status == 200, answer
    assert answer["status"] == STATUS, "nothing was pruned"
    return "finished"


def test_a_full_status_shows_in_the_columns(api: Api, finished: str) -> None:
    table = api.cluster.kubectl("get", "dt", finished, "-n", api.namespace, "-o", "wide")
    heads, row = table.splitlines()
    wanted = "NAME SERIES VERDICT PHASE NODES GPUS PASSED FAILED DURATION AGE REASON ATTEMPTS CURRENT REPORT"
    assert " ".join(heads.split()) == wanted
    cells = row.split()
    assert cells[:9] == ["finished", "nightly-2x8", "TestsFailed", "Finished", "2", "16", "2", "2", "1m1s"]
    assert cells[10:] == ["CasesFailed", "1", "finished-report"]


def test_runs_can_be_selected_by_series_and_verdict(api: Api, finished: str) -> None:
    def names(selector: str) -> list[str]:
        _, answer = api.request("GET", api.path(query=f"?fieldSelector={selector}"))
        return [item["metadata"]["name"] for item in answer["items"]]

    assert names("status.verdict%3DTestsFailed,status.series%3Dnightly-2x8") == [finished]
    assert names("status.verdict%3DPassed") == []


@pytest.mark.parametrize("verdict", ["Passed", None], ids=str)
def test_a_verdict_cannot_be_taken_back(verdict: str | None, api: Api, finished: str) -> None:
    status, answer = api.patch(api.path(f"{finished}/status"), {"status": {"verdict": verdict}})
    assert status == 422, answer
    assert "the verdict of a run is immutable" in answer["message"]


@pytest.mark.parametrize("missing", ["phase", "completionTime", "conditions", "reason", "message"])
def test_a_verdict_alone_is_refused(missing: str, api: Api) -> None:
    """As a user might write it by hand to end a run."""
    name = f"half-{missing.lower()}"
    api.create(copy.deepcopy(dict(GOOD)) | {"metadata": {"name": name}})
    for status in ({"verdict": "Passed"}, {key: value for key, value in STATUS.items() if key != missing}):
        code, answer = api.patch(api.path(f"{name}/status"), {"status": status})
        assert code == 422, answer
        assert "a verdict requires phase Finished" in answer["message"]


def test_a_finished_run_keeps_its_condition(api: Api, finished: str) -> None:
    code, answer = api.patch(api.path(f"{finished}/status"), {"status": {"conditions": []}})
    assert code == 422, answer


def test_the_status_is_written_through_its_subresource_only(api: Api, finished: str) -> None:
    status, answer = api.patch(api.path(finished), {"status": {"message": "forged"}})
    assert status == 200
    assert answer["status"]["message"] == STATUS["message"]


def test_the_ledger_takes_a_full_status_and_shows_it(api: Api) -> None:
    counted = {"verdict": "Passed", "reason": "AllCasesPassed"}
    when = "2026-01-02T03:05:06Z"
    run = {"name": "finished", "uid": "u", "time": when} | counted
    case = {"case": "x" * 521, "suite": "collectives", "outcomes": "PPFf." * 6}
    node = {"reason": "NodeLost", "count": 2, "confirmed": True, "lastTime": when, "lastRun": "r", "clearedTime": when}
    histogram = {"buckets": [{"le": 60, "count": 40}, {"le": 120, "count": 41}], "sum": 99.5, "count": 41}
    place = {"collective": "all_reduce", "dtype": "float32", "sizeBytes": 1 << 30, "nodes": 2}
    times = {
        "busBandwidthBytesPerSecond": 4.8e11,
        "thresholdBytesPerSecond": 4e11,
        "seconds": 0.004,
        "slowestSeconds": 0.005,
    }
    point = place | times | {"wrongElements": 0}
    ledger: dict[str, Any] = {
        "runCount": 41,
        "lastVerdict": "Passed",
        "lastCompletionTime": "2026-01-02T03:05:06Z",
        "lastSuccessTime": "2026-01-02T03:05:06Z",
        "totals": {
            "runs": [counted | {"count": 41}],
            "cases": [{"suite": "collectives", "outcome": "passed", "count": 900}],
            "retries": [{"reason": "NodeLost", "count": 3}],
            "durations": [histogram | {"verdict": "Passed"}],
            "steps": [histogram | {"step": "ran"}],
            "waits": [histogram | {"queue": ""}],
            "hangs": [{"suite": "collectives", "count": 2}],
            "nodeFailures": [{"node": "n", "reason": "NodeLost", "count": 1}],
        },
        "nodes": [{"name": f"node-{number}", "time": when} for number in range(512)],
        "nodesOmitted": 3,
        "environment": {
            "backend": "nccl",
            "torchVersion": "2.9.0",
            "ncclVersion": "2.27.5",
            "gpuProduct": "NVIDIA H100",
            "transport": "rdma",
            "network": "IB",
        },
        "bandwidth": {"run": "r", "time": when, "omitted": 0, "points": [point] * 64},
        "passRatePercent": 96,
        "streak": -3,
        "failing": [case | {"streak": 3, "since": when, "truncated": True, "lastOutcome": "hung", "message": "why"}]
        * 50,
        "failingOmitted": 7,
        "flipping": [case | {"flips": 3, "lastFlipTime": when}] * 50,
        "flippingOmitted": 8,
        "flakyCases": 5,
        "suspectNodes": [{**node, "name": f"node-{number}"} for number in range(50)],
        "suspectNodesOmitted": 9,
        "runs": [run | {"seconds": 61.2, "stepSeconds": {"ran": 60.5}, "nodes": 2, "cases": COUNTS}] * 30,
        "pending": [run | {"message": "m", "reportSha256": "ab" * 32, "status": STATUS}],
    }
    manifest = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTestSeries", "metadata": {"name": "nightly-2x8"}}
    api.create(manifest, plural="disttestseries")
    path = api.path("nightly-2x8/status", plural="disttestseries")
    first = {"runCount": 1, "passRatePercent": None}  # no run yet to tell by
    status, answer = api.patch(path, {"status": first}, query="?fieldValidation=Strict")
    assert (status, answer["status"]) == (200, {"runCount": 1})
    status, answer = api.patch(path, {"status": ledger}, query="?fieldValidation=Strict")
    assert status == 200, answer
    assert answer["status"] == ledger, "nothing was pruned"
    heads, row = api.cluster.kubectl("get", "dts", "nightly-2x8", "-n", api.namespace).splitlines()
    assert " ".join(heads.split()) == "NAME RUNS LAST VERDICT LASTSUCCESS PASSRATE STREAK FLAKY"
    assert row.split()[:2] == ["nightly-2x8", "41"]
    assert row.split()[3] == "Passed"
    assert row.split()[5:] == ["96", "-3", "5"]
    for name, most in (("runs", 30), ("failing", 50), ("flipping", 50), ("suspectNodes", 50)):
        status, answer = api.patch(path, {"status": {name: ledger[name] * 2}})
        assert status == 422
        assert f"must have at most {most} items" in answer["message"]
    status, answer = api.patch(path, {"status": {"passRatePercent": None}}, query="?fieldValidation=Strict")
    assert (status, "passRatePercent" in answer["status"]) == (200, False), "thirty runs that do not tell"
