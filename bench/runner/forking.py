"""What ranks cost that are forked from the zygote: a new generation after a crash, and the memory of a node.

A generation is compared with one in which every rank imports for itself.
"""

import json
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.figure import Figure, at_least, at_most
from bench.runner import gangs
from bench.runner.gangs import Ran
from tools.demo.session import say

IMPORTING = {gangs.ZYGOTE: "import"}
# ranks: crashes of a run that forks, of a run whose ranks import, and rounds of both
PLANS = {2: (20, 3, 3), 8: (10, 2, 2)}
GOAL_SECONDS = {2: 0.1, 8: 0.3}
GOAL_CPU_SAVED = 40  # where torch is compiled at each import, as in the environment of the goal
GOAL_CPU_SAVED_COMPILED = 20  # with byte code, as in most images: an import takes half as long
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
    """Seconds of the generations after the first one."""

    wall_seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def measure() -> list[Figure]:
    return [*_generations(), *_memory()]


def _generations() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as none, tempfile.TemporaryDirectory() as kept:
        source = {"PYTHONPYCACHEPREFIX": none, "PYTHONDONTWRITEBYTECODE": "1"}
        compiled = {"PYTHONPYCACHEPREFIX": kept, "PYTHONDONTWRITEBYTECODE": ""}
        figures = [figure for ranks in PLANS for figure in _figures(ranks, *_costs(ranks, source))]
        _run(2, 1, compiled)  # writes the byte code
        say("  the same with byte code of torch available")
        saved = _cpu_saved(*_costs(2, compiled))
    name = "new_generation_2_ranks_cpu_saved_compiled"
    return [*figures, at_least(name, saved, "times", GOAL_CPU_SAVED_COMPILED)]


def _costs(ranks: int, environ: dict[str, str]) -> tuple[Cost, Cost]:
    """Return the costs of forking and of importing."""
    crashes, crashes_importing, rounds = PLANS[ranks]
    forked, importing = Cost(), Cost()
    for number in range(rounds):
        _add(forked, ranks, crashes, environ)
        _add(importing, ranks, crashes_importing, environ | IMPORTING)
        say(
            f"  {ranks} ranks, round {number + 1} of {rounds}: "
            f"forked {_both(forked)}, each importing for itself {_both(importing)}"
        )
    return forked, importing


def _both(cost: Cost) -> str:
    return f"{cost.wall_seconds[-1]:.3f} s wall, {cost.cpu_seconds[-1]:.3f} s CPU"


def _add(cost: Cost, ranks: int, crashes: int, environ: dict[str, str]) -> None:
    """Add a run; its CPU is the difference to a run with one crash, which leaves out the start of the gang."""
    many, one = (_run(ranks, number, environ) for number in (crashes, 1))
    cost.wall_seconds += many.start_seconds[1:]
    cost.cpu_seconds.append((many.cpu_seconds - one.cpu_seconds) / (crashes - 1))


def _run(ranks: int, crashes: int, environ: dict[str, str]) -> Ran:
    with gangs.suite_of(SOURCE.format(crashes=crashes)) as suite:
        ran = gangs.run(suite, nodes=1, ranks=ranks, environ=environ)
    return gangs.expect(ran, passed=crashes, crashed=crashes)


def _figures(ranks: int, forked: Cost, importing: Cost) -> list[Figure]:
    wall, wall_importing = statistics.median(forked.wall_seconds), statistics.median(importing.wall_seconds)
    name, saved = f"new_generation_{ranks}_ranks", _cpu_saved(forked, importing)
    say(f"  {ranks} ranks: median {wall:.3f} s against {wall_importing:.2f} s of wall")
    return [
        at_most(name, wall, "s", GOAL_SECONDS[ranks], digits=3),
        at_least(f"{name}_cpu_saved", saved, "times", GOAL_CPU_SAVED),
    ]


def _cpu_saved(forked: Cost, importing: Cost) -> float:
    return round(statistics.median(importing.cpu_seconds) / statistics.median(forked.cpu_seconds), 1)


RANKS = 8
FILE = "BENCH_MEMORY"
# Barriers make all ranks exist while each one reads.
MEMORY_SOURCE = """
import json
import os
import time
from pathlib import Path

def smaps(pid):
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {row[0].rstrip(":"): int(row[1]) for row in rows}

def agent_rss(zygote):
    agent = int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])
    rows = (line.split() for line in Path(f"/proc/{agent}/status").read_text().splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1}["VmRSS:"]

def test_memory(gang, process_group):
    process_group.barrier().wait()
    zygote = os.getppid()
    found = {"rank": smaps(os.getpid()), "zygote": smaps(zygote), "agent_rss_kib": int(agent_rss(zygote))}
    Path(os.environ["BENCH_MEMORY"], f"{gang.rank}.json").write_text(json.dumps(found))
    process_group.barrier().wait()
"""


def _memory() -> list[Figure]:
    """Measure zygote, ranks and agent before CUDA."""
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as folder, gangs.suite_of(MEMORY_SOURCE) as suite:
        gangs.expect(gangs.run(suite, nodes=1, ranks=RANKS, environ={FILE: folder}), passed=1)
        found = [json.loads(file.read_text()) for file in Path(folder).iterdir()]
    if len(found) != RANKS:
        raise SystemExit(f"bench: {len(found)} of {RANKS} ranks reported their memory")
    ranks = [one["rank"] for one in found]
    zygote_pss = max(one["zygote"]["Pss"] for one in found)
    pss_gib = (zygote_pss + sum(rank["Pss"] for rank in ranks)) / 2**20
    private_mib = max(rank["Private_Dirty"] + rank["Private_Clean"] for rank in ranks) / 2**10
    agent_mb = found[0]["agent_rss_kib"] * 1024 / 1e6
    return [
        at_most("zygote_and_8_ranks_pss", pss_gib, "GiB", 0.9, digits=3),
        at_most("private_memory_of_a_rank", private_mib, "MiB", 30, digits=1),
        at_most("agent_rss", agent_mb, "MB", 40, digits=1),
    ]
