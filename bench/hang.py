"""How long after its deadline a hang is reported, with the stacks of all ranks and the collective they wait in."""

import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from bench.figure import Figure
from disttest_cli.local import agents
from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report

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

# What the rank that never comes does instead: answer, or be unable to.
ABSENT = {
    "hang_reported_after_deadline": "time.sleep(1000)",
    "hang_reported_after_deadline_interpreter_held": "10 ** 10 ** 10",
}


def measure() -> list[Figure]:
    """Medians of alternating runs, from the deadline until the leader has its result."""
    seconds: dict[str, list[float]] = {name: [] for name in ABSENT}
    for _ in range(RUNS):
        for name, absent in ABSENT.items():
            seconds[name].append(after_deadline(absent))
    for name, found in seconds.items():
        print(f"bench: {name} {[round(one, 3) for one in found]} s", flush=True)
    return [
        Figure(name=name, value=round(statistics.median(found), 3), unit="s", compare="<=", goal=GOAL_SECONDS)
        for name, found in seconds.items()
    ]


def after_deadline(absent: str) -> float:
    """One run of one case."""
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as folder:
        (Path(folder) / "test_it.py").write_text(SUITE.format(absent=absent))
        environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        done = asyncio.run(agents.run(plan(folder), agents.AgentReader(line=lambda _: None), environ=environ))
    report = done.report
    if report is None or report.first_case is None or report.last_case is None:
        raise SystemExit(f"bench: the hang left no report: {done.problem}")
    check(report)
    return report.last_case - report.first_case - CASE_SECONDS


def check(report: Report) -> None:
    """A quick report that says nothing would be worth nothing."""
    ((case,),) = [suite.cases for suite in report.suites]
    if case.outcome is not Outcome.HUNG or case.ranks != (1,) or set(case.stacks) != {0, 1}:
        raise SystemExit(f"bench: the hang was not understood: {case}")


def plan(folder: str) -> RunPlan:
    return RunPlan(
        namespace="bench",
        name="hang",
        uid="bench",
        series="",
        attempt=1,
        nodes=NODES,
        ranks_per_node=RANKS,
        backend="gloo",
        spread=True,
        suites=(SuitePlan(name="hang", directory=folder),),
        join_seconds=60,
        case_seconds=CASE_SECONDS,
        run_seconds=120,
    )
