"""Objects as an API server has them: fictional runs that passed, failed, wait or are running, and their objects."""

from datetime import UTC, datetime, timedelta
from typing import Any

from disttest_operator.core.api import naming

Body = dict[str, Any]
NAMESPACE = "gpu-ci"
UID = "11111111-2222-3333-4444-555555555555"
NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    """As Kubernetes writes times."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def counts(**said: int) -> dict[str, int]:
    outcomes = ("passed", "failed", "errored", "crashed", "hung", "skipped", "xfailed", "xpassed", "notRun")
    return {"total": sum(said.get(outcome, 0) for outcome in outcomes), **dict.fromkeys(outcomes, 0), **said}


def a_run(name: str = "nightly", *, created: float = 3600, spec: Body | None = None, **status: Any) -> Body:
    """Two nodes with eight ranks each, over NCCL. `created`: so many seconds ago."""
    usual = {
        "suites": [{"name": "collectives"}, {"name": "c10d-spawn"}],
        "nodes": 2,
        "gpusPerNode": 8,
        "series": "nightly-2x8",
    }
    return {
        "apiVersion": "disttest.dev/v1alpha1",
        "kind": "DistTest",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": UID,
            "creationTimestamp": ago(created),
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": usual | (spec or {}),
        "status": status,
    }


def passed(name: str = "good", *, created: float = 90000) -> Body:
    return a_run(
        name,
        created=created,
        phase="Finished",
        verdict="Passed",
        reason="AllCasesPassed",
        message="412 cases passed",
        series="nightly-2x8",
        gpus=16,
        attempt=1,
        durationSeconds=731.5,
        startTime=ago(created - 20),
        completionTime=ago(created - 760),
        stepSeconds={"queued": 2, "scheduled": 1, "pulled": 17.25, "joined": 4.5, "ran": 725.1, "collected": 0.4},
        cases=counts(passed=410, skipped=2, flaky=1),
        suites=[
            {"name": "collectives", "verdict": "Passed", "seconds": 300.1, "cases": counts(passed=125, skipped=2)},
            {"name": "c10d-spawn", "verdict": "Passed", "seconds": 420.0, "cases": counts(passed=285, flaky=1)},
        ],
        failures=[
            {
                "suite": "c10d-spawn",
                "case": "t.py::test_store",
                "outcome": "passed",
                "flaky": True,
                "ranks": [3],
                "nodes": ["gpu-1"],
                "message": "failed at first: timed out",
                "seconds": 1.25,
            }
        ],
        attempts=[{"number": 1, "job": f"{name}-a1", "nodes": ["gpu-1", "gpu-2"], "verdict": "Passed"}],
        report={"configMap": f"{name}-report", "sha256": "00"},
    )


def failed(name: str = "bad", *, created: float = 3600) -> Body:
    """On the second attempt; the first lost a node."""
    return a_run(
        name,
        created=created,
        phase="Finished",
        verdict="TestsFailed",
        reason="CasesFailed",
        message="2 of 412 cases failed: first c10d-spawn: t.py::test_\x1b[31mreduce on rank 11 of gpu-3",
        series="nightly-2x8",
        gpus=16,
        attempt=2,
        durationSeconds=512,
        startTime=ago(created - 300),
        completionTime=ago(created - 812),
        stepSeconds={"queued": 2, "scheduled": 1, "pulled": 3, "joined": 4.5, "ran": 505.1, "collected": 0.4},
        cases=counts(passed=408, failed=1, crashed=1, hung=1, skipped=1, quarantined=1),
        suites=[
            {"name": "collectives", "verdict": "TestsFailed", "seconds": 300.1, "cases": counts(passed=126, failed=1)},
            {
                "name": "c10d-spawn",
                "verdict": "TestsFailed",
                "seconds": 200,
                "cases": counts(passed=282, crashed=1, hung=1, skipped=1, quarantined=1),
            },
            {
                "name": "mine",
                "verdict": "Errored",
                "reason": "CollectionFailed",
                "message": "ModuleNotFoundError: missing",
                "seconds": 0.5,
                "cases": counts(),
            },
        ],
        failures=[
            {
                "suite": "collectives",
                "case": "correctness.py::test_all_reduce",
                "outcome": "failed",
                "ranks": [8, 9, 10, 11],
                "nodes": ["gpu-3"],
                "message": "AssertionError: element 5\n\x1b[2Jis 3.0\nand not 4.0",
                "seconds": 0.25,
            },
            {
                "suite": "c10d-spawn",
                "case": "t.py::test_reduce",
                "outcome": "crashed",
                "ranks": [11],
                "nodes": ["gpu-3"],
                "message": "rank 11 was killed by SIGSEGV",
                "seconds": 12.5,
            },
            {
                "suite": "c10d-spawn",
                "case": "t.py::test_known",
                "outcome": "hung",
                "quarantined": True,
                "ranks": [0],
                "nodes": ["gpu-1"],
                "message": "nothing for 60 s",
                "seconds": 60,
            },
        ],
        bandwidth=[
            {
                "collective": "all_reduce",
                "dtype": "bfloat16",
                "sizeBytes": 1 << 30,
                "busBandwidthBytesPerSecond": 312.5e9,
                "thresholdBytesPerSecond": 400_000_000_000,
                "ok": False,
            },
            {"collective": "all_gather", "sizeBytes": 1 << 20, "thresholdBytesPerSecond": 1_000_000_000, "ok": False},
            {
                "collective": "broadcast",
                "dtype": "float32",
                "sizeBytes": 4096,
                "busBandwidthBytesPerSecond": 2.5e6,
                "ok": True,
            },
        ],
        attempts=[
            {
                "number": 1,
                "job": f"{name}-a1",
                "nodes": ["gpu-1", "gpu-2"],
                "verdict": "InfraFailed",
                "reason": "NodeLost",
                "message": "gone",
                "charged": True,
                "report": f"{name}-report-a1",
                "firstFailure": {"pod": f"{name}-a1-1-abcde", "node": "gpu-2", "exitCode": 137, "signal": 9},
            },
            {
                "number": 2,
                "job": f"{name}-a2",
                "nodes": ["gpu-1", "gpu-3"],
                "verdict": "TestsFailed",
                "reason": "CasesFailed",
                "firstFailure": {"rank": 8, "case": "correctness.py::test_all_reduce"},
            },
        ],
        suspectNodes=[{"name": "gpu-2", "reason": "NodeLost", "evidence": "gone", "confirmed": True}],
        report={"configMap": f"{name}-report", "sha256": "00"},
    )


def going_on(name: str = "now", *, created: float = 400) -> Body:
    return a_run(
        name,
        created=created,
        phase="Running",
        series="nightly-2x8",
        gpus=16,
        attempt=1,
        startTime=ago(created - 30),
        conditions=[{"type": "GangReady", "status": "True", "reason": "GangRunning", "message": "2 of 2 pods run"}],
        progress={
            "step": "running",
            "nodesJoined": 2,
            "casesDone": 120,
            "casesTotal": 412,
            "suite": "c10d-spawn",
            "suitesDone": 1,
            "currentCase": "t.py::TestStore::test_\x1b]0;title\x07wait",
            "cases": counts(passed=118, failed=1, skipped=1),
            "failures": [
                {
                    "suite": "collectives",
                    "case": "correctness.py::test_all_reduce",
                    "outcome": "failed",
                    "ranks": "8-11",
                    "nodes": ["gpu-2"],
                    "message": "element 5 is 3.0",
                }
            ],
            "time": ago(8),
        },
    )


def waiting(name: str = "later", *, created: float = 100) -> Body:
    message = "2 nodes with 8 nvidia.com/gpu each are needed, and 1 has them"
    return a_run(
        name,
        created=created,
        phase="Queued",
        series="nightly-2x8",
        gpus=16,
        attempt=1,
        message=message,
        conditions=[{"type": "GangReady", "status": "False", "reason": "InsufficientGPUs", "message": message}],
    )


def a_pod(index: int, *, attempt: int = 1, run: str = "nightly", node: str = "", **status: Any) -> Body:
    return {
        "metadata": {
            "name": f"{run}-a{attempt}-{index}-abcde",
            "namespace": NAMESPACE,
            "labels": {
                naming.LABEL_NAME: run,
                naming.LABEL_UID: UID,
                naming.LABEL_ATTEMPT: str(attempt),
                "batch.kubernetes.io/job-completion-index": str(index),
            },
        },
        "spec": {"nodeName": node or f"gpu-{index + 1}"},
        "status": {"phase": "Running", **status},
    }


def ended(code: int, reason: str = "Error") -> Body:
    """The status of a pod whose container has ended so."""
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"name": "test", "state": state}]}


def an_event(seconds: float, reason: str, message: str, *, kind: str = "Normal") -> Body:
    return {"eventTime": ago(seconds), "type": kind, "reason": reason, "message": message}
