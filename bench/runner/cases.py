"""Cost of a case: an empty one compared with pytest alone, and the protocol alone by the number of stub ranks."""

import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.figure import Figure, at_most
from bench.runner import gangs
from disttest_contract.gang.plan import SuitePlan
from tools.demo.session import say

ROUNDS = 5
CASES = 400
STUB_ROUNDS = 3
STUB_CASES = 100
STUB_GANGS = {2: (1, 2), 8: (1, 8), 64: (8, 8), 512: (64, 8)}  # ranks: (agents, ranks of each)
STUB_GOALS_MS = {2: 1.0, 8: 2.5, 64: 10.0, 512: 40.0}
SOURCE = f"""
import pytest

@pytest.mark.parametrize("number", range({CASES}))
def test_empty(number):
    pass
"""


# Prints milliseconds per case of the folder in argv[1]. The options are those of a rank: no terminal, cache, capturing.
BARE_PYTEST = """
import sys, time
import pytest

class CaseTimer:
    times = []

    def pytest_runtest_logstart(self):
        self.times.append(time.perf_counter())

    def pytest_runtest_logfinish(self):
        self.times.append(time.perf_counter())

options = "-s -p no:cacheprovider -p no:terminal -p no:faulthandler -c /dev/null".split()
if code := pytest.main([*options, f"--rootdir={sys.argv[1]}", sys.argv[1]], plugins=[CaseTimer()]):
    sys.exit(f"bench: pytest alone ended with {code}")
times = CaseTimer.times
print(f"{1e3 * (times[-1] - times[0]) / (len(times) // 2):.4f}")
"""


def measure_empty_cases() -> list[Figure]:
    """Return medians of alternating runs."""
    bare, two, eight = [], [], []
    with gangs.suite_of(SOURCE) as suite:
        for number in range(ROUNDS):
            bare.append(bare_ms(Path(suite.directory)))
            two.append(gangs.expect(gangs.run(suite, nodes=1, ranks=2), passed=CASES).case_ms)
            eight.append(gangs.expect(gangs.run(suite, nodes=1, ranks=8), passed=CASES).case_ms)
            say(
                f"  round {number + 1} of {ROUNDS}: ms a case: pytest alone {bare[-1]:.3f}, "
                f"2 ranks {two[-1]:.3f}, 8 ranks {eight[-1]:.3f}"
            )
    return [
        at_most("empty_case_2_ranks", statistics.median(two), "ms", 1, digits=3),
        at_most("empty_case_8_ranks", statistics.median(eight), "ms", 2.5, digits=3),
        by_bare_pytest("empty_case_2_ranks", two, bare, goal=4),
        by_bare_pytest("empty_case_8_ranks", eight, bare, goal=11),  # 2.5 ms where pytest alone takes 0.23 ms
    ]


def by_bare_pytest(name: str, ours: Iterable[float], bare: Iterable[float], goal: float) -> Figure:
    """Take the median of each round's ratio: processors of shared machines differ by more than a factor of two."""
    ratio = statistics.median(one / alone for one, alone in zip(ours, bare, strict=True))
    return at_most(f"{name}_by_bare_pytest", ratio, "times", goal)


def bare_ms(folder: Path) -> float:
    """Milliseconds per case with pytest alone, in one process without our code."""
    command = [sys.executable, "-c", BARE_PYTEST, str(folder)]
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return float(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)


def measure_stub_ranks() -> list[Figure]:
    """Return medians of alternating runs."""
    found: dict[int, list[float]] = {world: [] for world in STUB_GANGS}
    environ = {gangs.ZYGOTE: "stub", gangs.CASES: str(STUB_CASES)}
    for number in range(STUB_ROUNDS):
        for world, (nodes, ranks) in STUB_GANGS.items():
            ran = gangs.run(SuitePlan(name="stubs", directory="/"), nodes=nodes, ranks=ranks, environ=environ)
            gangs.expect(ran, passed=STUB_CASES)
            found[world].append(ran.case_ms)
            say(
                f"  round {number + 1} of {STUB_ROUNDS}: {world} ranks on {nodes} agents: {ran.case_ms:.2f} ms a case, "
                f"agent 0 with the leader {1e3 * ran.own[0]['cases_cpu_seconds'] / STUB_CASES:.2f} ms of CPU, "
                f"all processes {ran.wall_seconds:.1f} s"
            )
    return [
        at_most(f"stub_case_{world}_ranks", statistics.median(times), "ms", STUB_GOALS_MS[world])
        for world, times in found.items()
    ]
