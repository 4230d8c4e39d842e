"""What a new generation costs after a crash, forked from the zygote and with every rank importing for itself."""

import statistics
import tempfile
from dataclasses import dataclass, field

from bench.figure import Figure
from bench.runner import gangs
from bench.runner.gangs import Ran

AFRESH = {gangs.ZYGOTE: "bench.runner.afresh_zygote"}
# ranks: crashes of a run by the zygote, of a run afresh, and how often both alternate
PLANS = {2: (20, 3, 3), 8: (10, 2, 2)}
GOAL_SECONDS = {2: 0.1, 8: 0.3}
GOAL_CPU_SAVED = 40  # where torch is compiled at each import, as in the environment that the goal was set in
GOAL_CPU_SAVED_COMPILED = 20  # where its byte code lies ready, as in most images: an import takes half as much
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
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as none, tempfile.TemporaryDirectory() as kept:
        source = {"PYTHONPYCACHEPREFIX": none, "PYTHONDONTWRITEBYTECODE": "1"}
        compiled = {"PYTHONPYCACHEPREFIX": kept, "PYTHONDONTWRITEBYTECODE": ""}
        figures = [figure for ranks in PLANS for figure in _figures(ranks, *_costs(ranks, source))]
        _run(2, 1, compiled)  # writes it
        print("  the same with byte code of torch at hand", flush=True)
        saved = _cpu_saved(*_costs(2, compiled))
    name = "new_generation_2_ranks_cpu_saved_compiled"
    return [*figures, Figure(name=name, value=saved, unit="times", compare=">=", goal=GOAL_CPU_SAVED_COMPILED)]


def _costs(ranks: int, environ: dict[str, str]) -> tuple[Cost, Cost]:
    """Forked, and each rank importing for itself."""
    crashes, crashes_afresh, rounds = PLANS[ranks]
    forked, afresh = Cost(), Cost()
    for number in range(rounds):
        _add(forked, ranks, crashes, environ)
        _add(afresh, ranks, crashes_afresh, environ | AFRESH)
        print(
            f"  {ranks} ranks, round {number + 1} of {rounds}: "
            f"forked {_both(forked)}, each importing for itself {_both(afresh)}",
            flush=True,
        )
    return forked, afresh


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
    wall, wall_afresh = statistics.median(forked.wall_seconds), statistics.median(afresh.wall_seconds)
    name, saved = f"new_generation_{ranks}_ranks", _cpu_saved(forked, afresh)
    print(f"  {ranks} ranks: median {wall:.3f} s against {wall_afresh:.2f} s of wall", flush=True)
    return [
        Figure(name=name, value=round(wall, 3), unit="s", compare="<=", goal=GOAL_SECONDS[ranks]),
        Figure(name=f"{name}_cpu_saved", value=saved, unit="times", compare=">=", goal=GOAL_CPU_SAVED),
    ]


def _cpu_saved(forked: Cost, afresh: Cost) -> float:
    return round(statistics.median(afresh.cpu_seconds) / statistics.median(forked.cpu_seconds), 1)
