"""Random faults on 2 x 2 ranks: are outcomes and ranks right, is nothing left, how soon does the next case start?"""

import itertools
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.figure import Figure, at_least, at_most, exactly
from disttest_contract.results.report import CaseResult, Report
from disttest_runner.compat import override
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

CASES = 1000
BATCH = 100  # cases of one attempt; the last of them kills an agent, which ends it
CASE_SECONDS = 3
SEED = 4711
BAD = frozenset({"failed", "errored", "crashed", "hung"})


@dataclass(frozen=True, slots=True)
class RandomFault:
    """What `strike` does on one rank, and the expected outcome."""

    name: str
    weight: int
    outcome: str
    strike: str
    words: str = ""
    whole_node: bool = False  # all ranks of the node are at fault
    after_the_collective: bool = False  # no other rank waits for this one


KINDS = (
    RandomFault("nothing", 240, "passed", "pass"),
    RandomFault("segfault", 140, "crashed", "ctypes.string_at(0)", "SIGSEGV"),
    RandomFault("kill", 140, "crashed", "os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    RandomFault("abort", 120, "crashed", "os.abort()", "SIGABRT"),
    RandomFault("exit 0", 110, "crashed", "os._exit(0)", "exited with code 0"),
    RandomFault("exit 2", 90, "crashed", "os._exit(2)", "exited with code 2"),
    RandomFault("orphan", 30, "crashed", "os.system('setsid sleep 1000.5 &'), os._exit(3)", "exited with code 3"),
    RandomFault("assert", 70, "failed", "pytest.fail('the storm')", "the storm", after_the_collective=True),
    RandomFault("raise", 10, "failed", "pytest.fail('the storm')", "the storm"),
    RandomFault("hang", 30, "hung", "time.sleep(1000)", "has not joined"),
    RandomFault("stop", 15, "hung", "os.kill(os.getpid(), signal.SIGSTOP)", "stopped"),
    RandomFault("zygote", 5, "crashed", "os.kill(os.getppid(), signal.SIGKILL)", "SIGKILL", whole_node=True),
)
BY_NAME = {kind.name: kind for kind in KINDS}

SUITE = """
import ctypes, os, signal, time
import pytest, torch
import torch.distributed as dist

STRIKES = {strikes!r}

def kill_agent():
    with open(f"/proc/{{os.getppid()}}/status") as status:
        os.kill(int(next(line.split()[1] for line in status if line.startswith("PPid"))), signal.SIGKILL)

@pytest.mark.parametrize("number", range(len(STRIKES)))
def test_storm(number, gang, process_group):
    strike, rank, after, node = STRIKES[number]
    def collective():
        tensor = torch.full((1,), float(gang.rank))
        dist.all_reduce(tensor)
        assert int(tensor) == sum(range(gang.world_size))
    if after:
        collective()
    if gang.rank == rank:
        exec(strike)
    if node and gang.node_index == rank // 2:
        time.sleep(60)
    if not after:
        collective()
"""


@dataclass(frozen=True, slots=True)
class Strike:
    kind: RandomFault
    rank: int


def strikes(count: int, seed: int, kinds: tuple[RandomFault, ...] = KINDS) -> list[Strike]:
    """The same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - a storm, no secret
    chosen = chance.choices(kinds, weights=[kind.weight for kind in kinds], k=count)
    return [Strike(kind, chance.randrange(4)) for kind in chosen]


@dataclass(slots=True)
class BatchOutcome:
    cases: int = 0
    faulty: int = 0
    wrong: list[str] = field(default_factory=list)
    restart_seconds: list[float] = field(default_factory=list)
    lost_agents: int = 0


class TimedGang(AgentGang):
    """Records when each line of the leader's log came."""

    @override
    def __post_init__(self) -> None:
        self.ended: dict[int, float] = {}  # by the number of a case
        super().__post_init__()

    @override
    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("[") and "/" in line[:12] and "rank" not in line[:6]:
                self.ended.setdefault(int(line[1:].split("/")[0]), time.monotonic())
            self.log.append(line.rstrip("\n"))


def batch(folder: Path, planned: list[Strike], *, case_seconds: int, loses_agent: bool) -> BatchOutcome:
    """One attempt. Its last case may kill the agent of node index 1."""
    rows = [(one.kind.strike, one.rank, one.kind.after_the_collective, one.kind.whole_node) for one in planned]
    if loses_agent:
        rows.append(("kill_agent()", 3, False, True))
    suite = suite_of(folder / "suite", SUITE.format(strikes=rows))
    gang = TimedGang(make_plan(suite, case_seconds=case_seconds, run_seconds=3000), folder)
    try:
        gang.wait(3000)
        gang.check_nothing_left()
        report = gang.report()
    finally:
        gang.end()
    cases = report.suites[0].cases
    found = BatchOutcome(cases=len(rows), faulty=sum(one.kind.outcome in BAD for one in planned) + loses_agent)
    for one, result in zip(planned, cases, strict=False):
        found.wrong += [f"{one.kind.name} on rank {one.rank}: {what}" for what in wrong(one, result)]
    found.wrong += lost(report) if loses_agent else []
    found.lost_agents = int(loses_agent)
    if len(cases) != len(rows):
        found.wrong.append(f"{len(cases)} results for {len(rows)} cases: {report.message}")
    found.restart_seconds = list(restarts(cases, gang.ended))
    return found


def wrong(one: Strike, result: CaseResult) -> list[str]:
    """In which ways the result is not that of the strike."""
    ranks: tuple[int, ...] = (one.rank,)
    if one.kind.outcome == "passed":
        ranks = ()
    elif one.kind.whole_node:
        ranks = (0, 1) if one.rank < 2 else (2, 3)
    found = []
    if result.outcome != one.kind.outcome:
        found.append(f"{result.outcome}, expected {one.kind.outcome}: {result.message[:300]}")
    elif result.ranks != ranks:
        found.append(f"ranks {result.ranks} blamed: {result.message[:300]}")
    elif one.kind.words not in result.message:
        found.append(f"the message lacks {one.kind.words!r}: {result.message[:300]}")
    return found


def lost(report: Report) -> list[str]:
    if (
        report.reason != "GangLost"
        or "node index 1 (pod tried-1 on local-1): the connection to the agent broke" not in report.message
    ):
        return [f"the lost agent was reported as {report.reason}: {report.message}"]
    last = report.suites[0].cases[-1]
    return [] if last.outcome == "notRun" else [f"the case whose agent was lost is {last.outcome}"]


def restarts(cases: tuple[CaseResult, ...], ended: dict[int, float]) -> Iterator[float]:
    """Seconds from the line of a bad case to the start of the next case."""
    for number, (bad, following) in enumerate(itertools.pairwise(cases), start=1):
        if bad.outcome in BAD and following.outcome != "notRun" and {number, number + 1} <= ended.keys():
            yield ended[number + 1] - following.seconds - ended[number]


def run(count: int, *, batch_size: int, case_seconds: int, seed: int = SEED) -> BatchOutcome:
    planned, total = strikes(count, seed), BatchOutcome()
    while planned:
        now, planned = planned[: batch_size - 1], planned[batch_size - 1 :]
        with tempfile.TemporaryDirectory(prefix="storm-") as folder:
            one = batch(Path(folder), now, case_seconds=case_seconds, loses_agent=True)
        total.cases += one.cases
        total.faulty += one.faulty
        total.wrong += one.wrong
        total.restart_seconds += one.restart_seconds
        total.lost_agents += one.lost_agents
        print(f"  {total.cases} cases, {total.faulty} of them faulty, {len(total.wrong)} wrong", flush=True)
    return total


def measure() -> list[Figure]:
    """Run all cases, also those of the lost agents; a process that is left ends it immediately."""
    started = time.monotonic()
    total = run(CASES - CASES // BATCH, batch_size=BATCH, case_seconds=CASE_SECONDS)
    for line in total.wrong:
        print(f"  wrong: {line}")
    print(f"  {total.lost_agents} agents lost, {len(total.restart_seconds)} new generations")
    print(f"  the storm took {time.monotonic() - started:.0f} s")
    return [
        at_least("storm_cases", total.cases, "cases", CASES),
        at_least("storm_faulty_cases", total.faulty, "cases", CASES * 0.6),
        exactly("storm_wrong_outcomes_or_blames", len(total.wrong), "cases"),
        at_most("storm_median_restart", statistics.median(total.restart_seconds), "s", 0.25, digits=3),
    ]
