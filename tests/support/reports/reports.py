"""Made-up reports: a night of two nodes with a bad ending of each kind, a good night, a long one.

No number in them was measured.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

from disttest_cli.formats.subject import Subject
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.results.case_result import CaseResult, RankEnding, RankGroup
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import Report, SuiteResult
from disttest_runner.results import verdicts
from tests.support.reports import report_cases
from tests.support.reports.report_cases import NODES, good_cases, timed
from tests.support.reports.report_texts import FAILURE_MESSAGE

STARTED = 1_772_157_723.4  # 2026-02-27 02:02:03 UTC
FIRST_CASE = 20.9  # seconds after that
SUITES = (  # name, file, tests, good cases, bad or notable ones
    (
        "collectives",
        "collectives/correctness.py",
        ("test_every_element", "test_all_reduce_of_extremes", "test_broadcast_of_objects"),
        96,
        report_cases.bandwidth_cases(),
    ),
    (
        "fully-shard-autograd",
        "fully_shard_autograd.py",
        ("test_unused_forward_output", "test_unused_forward_module", "test_post_acc_grad_hook_runs"),
        57,
        [report_cases.FAILED],
    ),
    (
        "replicate-compile",
        "replicate_compile.py",
        ("test_compile", "test_ddp_with_tensor_parallel"),
        23,
        [report_cases.CRASHED, report_cases.QUARANTINED],
    ),
    (
        "pipeline-schedules",
        "pipeline_schedules.py",
        ("test_plan", "test_every_iteration_is_right", "test_gradients_along_a_v"),
        102,
        [report_cases.HUNG],
    ),
    (
        "data-parallel",
        "data_parallel.py",
        ("test_optimizer", "test_batch_dim_analysis", "test_non_0_batch_dim"),
        84,
        [report_cases.ERRORED],
    ),
    ("fsdp-exec-order", "fsdp_exec_order.py", ("test_another_order",), 12, [report_cases.FLAKY]),
)
VERSIONS = {"torch": "2.9.0+cu130", "cuda": "13.0", "nccl": "2.27.7", "python": "3.13.1"}
FACTS = NodeFacts(
    node_name=NODES[0],
    gpus=("NVIDIA H100 80GB HBM3",) * 8,
    driver="580.95.05",
    cuda_driver="13.0",
    shm_bytes=64 << 30,
    memlock_bytes=-1,
    cpus=192,
    memory_bytes=2048 << 30,
    kernel="6.8.0-87-generic",
    clock_offset_seconds=0.0,
    round_trip_seconds=0.0,
    versions=VERSIONS,
)
OTHER_FACTS = dataclasses.replace(
    FACTS,
    node_name=NODES[1],
    driver="580.82.07",
    shm_bytes=16 << 30,
    kernel="6.8.0-79-generic",
    clock_offset_seconds=0.0021,
    round_trip_seconds=0.00018,
)
STATUS: dict[str, Any] = {
    "phase": "Finished",
    "stepSeconds": {"queued": 41.2, "scheduled": 1.3, "pulled": 12.6, "joined": 3.9, "ran": 766.0, "collected": 2.4},
    "attempts": [
        {
            "number": 1,
            "job": "nightly-2x8-7d4kq-1",
            "nodes": ["gpu-node-17", "gpu-node-09"],
            "verdict": "InfraFailed",
            "reason": "NodeUnhealthy",
            "message": "node gpu-node-09: Xid 79, the GPU has fallen off the bus; the run continues without this node",
            "charged": True,
            "startTime": "2026-02-27T01:41:12Z",
            "completionTime": "2026-02-27T02:00:50Z",
            "firstFailure": {
                "time": "2026-02-27T02:00:41Z",
                "rank": 12,
                "pod": "nightly-2x8-7d4kq-1-1-x2lqp",
                "node": "gpu-node-09",
                "exitCode": 134,
                "signal": "SIGABRT",
                "message": "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
            },
        }
    ],
    "suspectNodes": [
        {"name": "gpu-node-09", "reason": "NodeUnhealthy", "evidence": "Xid 79 on GPU 4", "confirmed": False}
    ],
}


def a_suite(name: str, cases: Iterable[CaseResult], **changes: Any) -> SuiteResult:
    """Judged as the leader judges."""
    seen = tuple(cases)
    seconds = sum(case.seconds for case in seen)
    return dataclasses.replace(verdicts.finished(SuitePlan(name=name), seconds=seconds, cases=seen), **changes)


def a_report(*suites: SuiteResult, **changes: Any) -> Report:
    """Of two nodes with eight ranks each; its verdict and its end are those of the suites."""
    judged = verdicts.of_run(suites, stop=None)
    restarts = sum(case.is_red and case.outcome is not Outcome.FAILED for suite in suites for case in suite.cases)
    seconds = max(((case.at or 0) + case.seconds for suite in suites for case in suite.cases), default=FIRST_CASE)
    usual: dict[str, Any] = {
        "namespace": "gpu-ci",
        "name": "nightly-2x8-7d4kq",
        "uid": "1f4b7c9e-63a1-4a56-9d0e-0c6f3f1f7b52",
        "series": "nightly-2x8",
        "attempt": 2,
        "backend": "nccl",
        "nodes": 2,
        "ranks_per_node": 8,
        "node_names": NODES,
        "versions": VERSIONS,
        "verdict": judged.verdict,
        "reason": judged.reason,
        "message": judged.message,
        "started": STARTED,
        "joined": STARTED + 3.9,
        "first_case": STARTED + FIRST_CASE,
        "last_case": STARTED + seconds,
        "finished": STARTED + seconds + 1.8,
        "generations": len(suites) + restarts,
        "preflight": (FACTS, OTHER_FACTS),
        "thresholds": report_cases.THRESHOLDS,
        "suites": suites,
    }
    return Report(**usual | changes)


def a_night(**changes: Any) -> Report:
    """About 400 cases in six suites: failed, crashed, hung, errored, flaky and quarantined ones, a missed threshold."""
    suites, at = [], FIRST_CASE
    for name, file, tests, count, notable in SUITES:
        good = good_cases(file, tests, count)
        middle = len(good) * 2 // 3
        cases = timed([*good[:middle], *notable, *good[middle:]], at)
        at = (cases[-1].at or 0) + cases[-1].seconds + 4
        suites.append(a_suite(name, cases))
    return a_report(*suites, **changes)


def a_good_night(**changes: Any) -> Report:
    """The same without what ended badly."""
    suites = [
        a_suite(suite.name, (case for case in suite.cases if case.outcome not in BAD)) for suite in a_night().suites
    ]
    return a_report(*suites, **{"thresholds": report_cases.THRESHOLDS[:2]} | changes)


def a_subject(report: Report | None = None, status: dict[str, Any] | None = None) -> Subject:
    return Subject(report=report or a_night(), status=STATUS if status is None else status)


def many(count: int, *, bad_every: int = 250) -> Report:
    """So many cases in ten suites, a few of them failed."""
    suites, at = [], FIRST_CASE
    for number in range(10):
        cases = good_cases(f"test/distributed/test_part_{number}.py", ("test_a_thing", "test_other"), count // 10)
        for place in range(bad_every // 2, len(cases), bad_every):
            cases[place] = _failed(cases[place], rank=(place + number) % 16)
        placed = timed(cases, at)
        at = (placed[-1].at or 0) + placed[-1].seconds + 4
        suites.append(a_suite(f"part-{number}", placed))
    return a_report(*suites, thresholds=())


def _failed(case: CaseResult, rank: int) -> CaseResult:
    node = NODES[rank // 8]
    others = tuple(other for other in range(16) if other != rank)
    return dataclasses.replace(
        case,
        outcome=Outcome.FAILED,
        message=f"rank {rank} on {node}:\n{FAILURE_MESSAGE.partition(chr(10))[2]}",
        ranks=(rank,),
        nodes=(node,),
        by_rank=(
            RankGroup(ranks=(rank,), ending=RankEnding.FAILED, message="AssertionError: Tensor-likes are not close!"),
            RankGroup(ranks=others, ending=RankEnding.PASSED),
        ),
    )
