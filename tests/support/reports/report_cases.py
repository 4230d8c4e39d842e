"""Cases of made-up reports: one of each kind of bad ending, good ones by the hundred, bandwidths."""

import dataclasses
import zlib
from collections.abc import Iterable, Sequence

from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult, Diagnosis, Earlier, RankEnding, RankGroup
from disttest_contract.results.measurement import COLLECTIVES, Measurement
from disttest_contract.results.thresholds import Threshold
from tests.support.reports.report_texts import (
    CRASH_MESSAGE,
    FAILURE_MESSAGE,
    FIXTURE_MESSAGE,
    HANG_SENTENCE,
    NATIVE_STACK,
    OTHER_FAILURE_MESSAGE,
    RAS,
    STACK_OF_THE_CULPRIT,
    STACK_OF_THE_WAITING,
)

WAITS = "waits in all_reduce number 41 of the default group, at step (pipeline/line.py:131)"
NODES = ("gpu-node-17", "gpu-node-23")
RANKS = 16
GIB = 1 << 30
SIZES = tuple(1 << power for power in range(15, 34, 2))  # 32 KiB … 8 GiB
DTYPES = ("float32", "bfloat16")
FACTORS = {"all_reduce": 2 * 15 / 16, "broadcast": 1.0, "reduce": 1.0, "send_recv": 1.0, "send_recv_pair": 1.0}
PEAKS = {"all_reduce": 372e9, "all_gather": 341e9, "reduce_scatter": 346e9, "all_to_all": 58e9, "broadcast": 318e9}
THRESHOLDS = (
    Threshold(collective="all_reduce", size_bytes=8 * GIB, min_bus_bandwidth_bytes_per_second=330 * 10**9),
    Threshold(
        collective="all_gather", size_bytes=2 * GIB, min_bus_bandwidth_bytes_per_second=300 * 10**9, dtype="bfloat16"
    ),
    Threshold(collective="all_to_all", size_bytes=8 * GIB, min_bus_bandwidth_bytes_per_second=70 * 10**9),
)

FAILED = CaseResult(
    id="fully_shard_autograd.py::test_nontensor_activations[dataclass-reshard]",
    outcome=Outcome.FAILED,
    seconds=3.412,
    message=FAILURE_MESSAGE,
    ranks=(11,),
    nodes=NODES[1:],
    by_rank=(
        RankGroup(ranks=(11,), ending=RankEnding.FAILED, message=FAILURE_MESSAGE.partition("\n")[2]),
        RankGroup(ranks=(12, 13), ending=RankEnding.FAILED, message=OTHER_FAILURE_MESSAGE),
        RankGroup(ranks=(*range(11), 14, 15), ending=RankEnding.PASSED),
    ),
)
CRASHED = CaseResult(
    id="replicate_compile.py::test_compile[bf16-hook]",
    outcome=Outcome.CRASHED,
    seconds=21.87,
    message=CRASH_MESSAGE,
    ranks=(13,),
    nodes=NODES[1:],
    signal="SIGSEGV",
    by_rank=(
        RankGroup(ranks=(13,), ending=RankEnding.CRASHED, message="killed by SIGSEGV"),
        RankGroup(ranks=(8, 9, 10), ending=RankEnding.FAILED, message="RuntimeError: connection closed by rank 13"),
        RankGroup(ranks=(*range(8), 11, 12, 14, 15), ending=RankEnding.UNFINISHED),
    ),
)
HUNG = CaseResult(
    id="pipeline_schedules.py::test_gradients_of_two_stages_a_rank[ScheduleInterleaved1F1B]",
    outcome=Outcome.HUNG,
    seconds=300.02,
    message=HANG_SENTENCE,
    ranks=(9,),
    nodes=NODES[1:],
    by_rank=(
        RankGroup(ranks=(9,), ending=RankEnding.UNFINISHED, message="is at load_batch (pipeline/line.py:88)"),
        RankGroup(ranks=(*range(9), *range(10, 14)), ending=RankEnding.UNFINISHED),
        RankGroup(ranks=(14, 15), ending=RankEnding.IDLE),
    ),
    stacks={9: STACK_OF_THE_CULPRIT, 0: STACK_OF_THE_WAITING, 1: STACK_OF_THE_WAITING},
    diagnosis=Diagnosis(
        summary=HANG_SENTENCE,
        states={
            9: "is at load_batch (pipeline/line.py:88)",
            **dict.fromkeys((*range(9), *range(10, 14)), WAITS),
            14: "finished the case (passed)",
            15: "finished the case (passed)",
        },
        native={9: NATIVE_STACK},
        ras=RAS,
        artifacts="gpu-ci/nightly-2x8-7d4kq/attempt-2/pipeline-schedules/5f0c9a1e",
    ),
)
ERRORED = CaseResult(
    id="data_parallel.py::test_optimizer[fsdp-adamw-compiled]",
    outcome=Outcome.ERRORED,
    seconds=0.61,
    message=FIXTURE_MESSAGE,
    ranks=(8, 9, 10, 11, 12, 13, 14, 15),
    nodes=NODES[1:],
    by_rank=(
        RankGroup(ranks=tuple(range(8, 16)), ending=RankEnding.ERRORED, message=FIXTURE_MESSAGE.partition("\n")[2]),
        RankGroup(ranks=tuple(range(8)), ending=RankEnding.PASSED),
    ),
)
FLAKY = CaseResult(
    id="fsdp_exec_order.py::test_another_order_in_a_later_iteration_is_warned_of_once[3]",
    outcome=Outcome.PASSED,
    seconds=4.2,
    earlier=(
        Earlier(
            outcome=Outcome.FAILED,
            seconds=4.9,
            message="rank 4 on gpu-node-17:\nAssertionError: 2 warnings where 1 was expected",
            ranks=(4,),
            nodes=NODES[:1],
        ),
    ),
)
QUARANTINED = CaseResult(
    id="replicate_compile.py::test_bucketing[fused-7]",
    outcome=Outcome.FAILED,
    seconds=12.4,
    message="rank 2 on gpu-node-17:\nAssertionError: 3 buckets, expected 2",
    ranks=(2,),
    nodes=NODES[:1],
    quarantined=True,
    by_rank=(
        RankGroup(ranks=(2,), ending=RankEnding.FAILED, message="AssertionError: 3 buckets, expected 2"),
        RankGroup(ranks=(0, 1, *range(3, 16)), ending=RankEnding.PASSED),
    ),
)


def good_cases(file: str, names: Sequence[str], count: int) -> list[CaseResult]:
    """Mostly passed, here and there skipped or failed as expected; seconds that look like life, the same each time."""
    cases = []
    for number in range(count):
        case_id = f"{file}::{names[number % len(names)]}[{number // len(names)}]"
        dice = zlib.crc32(case_id.encode())
        seconds = 0.05 + (dice % 997) / 997 * (9 if dice % 31 == 0 else 1.1)
        outcome, message = Outcome.PASSED, ""
        if dice % 29 == 3:
            outcome, message, seconds = Outcome.SKIPPED, "needs a world of 32 ranks", 0.002
        elif dice % 97 == 5:
            outcome = Outcome.XFAILED
        cases.append(CaseResult(id=case_id, outcome=outcome, seconds=round(seconds, 4), message=message))
    return cases


def bandwidth_cases() -> list[CaseResult]:
    """Every collective in two types; all_to_all is slower than its threshold in one of them."""
    cases = []
    for collective in COLLECTIVES:
        for dtype in DTYPES:
            measured = tuple(_measurement(collective, dtype, size) for size in SIZES)
            name = f"collectives/bandwidth.py::test_bandwidth[{collective}-{dtype}]"
            cases.append(CaseResult(id=name, outcome=Outcome.PASSED, seconds=5.1, measurements=measured))
            if (collective, dtype) == ("all_to_all", "float32"):
                message = "all_to_all of 8 GiB float32: 57.4 GB/s bus bandwidth, below the threshold of 70.0 GB/s"
                cases[-1] = dataclasses.replace(cases[-1], outcome=Outcome.FAILED, message=message)
    return cases


def _measurement(collective: str, dtype: str, size: int) -> Measurement:
    """A curve as latency and a peak make it."""
    factor = FACTORS.get(collective, 15 / 16)
    peak = PEAKS.get(collective, 44e9) * (1.32 if (collective, dtype) == ("all_to_all", "bfloat16") else 1.0)
    dice = zlib.crc32(f"{collective}{dtype}{size}".encode()) % 100 / 100
    seconds = 24e-6 * (0.9 + dice * 0.2) + size * factor / (peak * (0.99 + dice * 0.01))
    return Measurement(
        collective=collective,
        dtype=dtype,
        size_bytes=size,
        ranks=RANKS,
        iterations=20,
        seconds=seconds,
        fastest_rank_seconds=seconds * 0.99,
        slowest_rank_seconds=seconds * (1.62 if collective == "send_recv_pair" and size >= GIB // 2 else 1.02),
        slowest_rank=9,
        alg_bytes_per_second=size / seconds,
        bus_bandwidth_bytes_per_second=size / seconds * factor,
        wrong_elements=0,
    )


def timed(cases: Iterable[CaseResult], at: float) -> tuple[CaseResult, ...]:
    """One after the other, with what lies between two cases."""
    placed = []
    for case in cases:
        if case.outcome is Outcome.NOT_RUN:
            placed.append(case)
            continue
        at += sum(one.seconds for one in case.earlier)
        placed.append(dataclasses.replace(case, at=round(at, 3)))
        at += case.seconds + (6.0 if case.is_red and case.outcome is not Outcome.FAILED else 0.004)
    return tuple(placed)
