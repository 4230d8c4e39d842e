"""Seconds from the deadline of a case that hangs to its report with the stacks of all ranks."""

import statistics

from bench.figure import Figure, at_most
from bench.runner import gangs
from disttest_contract.outcomes import Outcome

RUNS = 5
NODES, RANKS = 2, 1
CASE_SECONDS = 2
GOAL_SECONDS = 0.5

SUITE = """
import ctypes, time
import torch, torch.distributed as dist

def test_hang(gang, process_group):
    if gang.rank == 1:
        {absent}
    dist.all_reduce(torch.ones(1))
"""

# What the absent rank does: wait, or hold the interpreter, so that it cannot answer.
ABSENT = {
    "hang_reported_after_deadline": "time.sleep(1000)",
    "hang_reported_after_deadline_interpreter_held": "10 ** 10 ** 10",
}


def measure() -> list[Figure]:
    """Return medians of alternating runs."""
    seconds: dict[str, list[float]] = {name: [] for name in ABSENT}
    for _ in range(RUNS):
        for name, absent in ABSENT.items():
            seconds[name].append(after_deadline(absent))
    for name, found in seconds.items():
        print(f"bench: {name} {[round(one, 3) for one in found]} s", flush=True)
    return [at_most(name, statistics.median(found), "s", GOAL_SECONDS, digits=3) for name, found in seconds.items()]


def after_deadline(absent: str) -> float:
    with gangs.suite_of(SUITE.format(absent=absent)) as suite:
        ran = gangs.run(suite, nodes=NODES, ranks=RANKS, spread=True, case_seconds=CASE_SECONDS)
    ((case,),) = [suite.cases for suite in ran.report.suites]
    if case.outcome is not Outcome.HUNG or case.ranks != (1,) or set(case.stacks) != {0, 1}:
        raise SystemExit(f"bench: the report does not explain the hang: {case}")
    return ran.case_ms / 1e3 - CASE_SECONDS
