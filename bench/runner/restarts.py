"""What a new generation costs after a crash, forked from the zygote and with every rank importing for itself."""

import statistics
from dataclasses import dataclass, field

from bench.figure import Figure
from bench.runner import gangs
from bench.runner.gangs import Ran

AFRESH = {gangs.ZYGOTE: "bench.runner.afresh_zygote"}
# ranks: crashes of a run by the zygote, of a run afresh, and how often both alternate
PLANS = {2: (20, 3, 3), 8: (10, 2, 2)}
GOAL_SECONDS = {2: 0.1, 8: 0.3}
SOURCE = """
import os
import signal

import pytest

@pytest.mark.parametrize("number", range(2 * {crashes}))
def test_every_other_one_crashes(number, gang):
    if number % 2 and gang.rank == number // 2 % gang.world_size:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@dataclass(slots=True)
class Cost:
    """Of the generations after the first one."""

    wall_seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def measure() -> list[Figure]:
    figures: list[Figure] = []
    for ranks, (crashes, crashes_afresh, rounds) in PLANS.items():
        forked, afresh = Cost(), Cost()
        for number in range(rounds):
            _add(forked, ranks, crashes, {})
            _add(afresh, ranks, crashes_afresh, AFRESH)
            print(
                f"  {ranks} ranks, round {number + 1} of {rounds}: "
                f"forked {_both(forked)}, each importing for itself {_both(afresh)}",
                flush=True,
            )
        figures += _figures(ranks, forked, afresh)
    return figures


def _both(cost: Cost) -> str:
    return f"{cost.wall_seconds[-1]:.3f} s wall, {cost.cpu_seconds[-1]:.3f} s CPU"


def _add(cost: Cost, ranks: int, crashes: int, environ: dict[str, str]) -> None:
    """CPU by the difference to a run with one crash only: of all processes, the start of the gang left out."""
    many, one = (_run(ranks, number, environ) for number in (crashes, 1))
    cost.wall_seconds += many.start_seconds[1:]
    cost.cpu_seconds.append((many.cpu_seconds - one.cpu_seconds) / (crashes - 1))


def _run(ranks: int, crashes: int, environ: dict[str, str]) -> Ran:
    with gangs.suite_of(SOURCE.format(crashes=crashes)) as suite:
        ran = gangs.run(suite, nodes=1, ranks=ranks, environ=environ)
    return gangs.expect(ran, passed=crashes, crashed=crashes)


def _figures(ranks: int, forked: Cost, afresh: Cost) -> list[Figure]:
    wall, cpu = statistics.median(forked.wall_seconds), statistics.median(forked.cpu_seconds)
    by_wall, by_cpu = statistics.median(afresh.wall_seconds) / wall, statistics.median(afresh.cpu_seconds) / cpu
    name, goal = f"new_generation_{ranks}_ranks", GOAL_SECONDS[ranks]
    return [
        Figure(name=name, value=round(wall, 3), unit="s", compare="<=", goal=goal),
        Figure(name=f"{name}_cpu_saved", value=round(by_cpu, 1), unit="times", compare=">=", goal=40),
        Figure(name=f"{name}_wall_saved", value=round(by_wall, 1), unit="times", compare=">=", goal=1),
    ]
