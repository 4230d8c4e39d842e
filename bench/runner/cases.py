"""What an empty case costs beside pytest's own protocol for it, and how that grows with the ranks of a node."""

import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.figure import Figure
from bench.runner import gangs

ROUNDS = 5
CASES = 400
SOURCE = f"""
import pytest

@pytest.mark.parametrize("number", range({CASES}))
def test_empty(number):
    pass
"""


def measure() -> list[Figure]:
    """Medians of alternating runs."""
    bare, two, eight = [], [], []
    with gangs.suite_of(SOURCE) as suite:
        for number in range(ROUNDS):
            bare.append(bare_ms(Path(suite.directory)))
            two.append(gangs.expect(gangs.run(suite, nodes=1, ranks=2), passed=CASES).case_ms)
            eight.append(gangs.expect(gangs.run(suite, nodes=1, ranks=8), passed=CASES).case_ms)
            print(
                f"  round {number + 1} of {ROUNDS}: ms a case: pytest alone {bare[-1]:.3f}, "
                f"2 ranks {two[-1]:.3f}, 8 ranks {eight[-1]:.3f}",
                flush=True,
            )
    return [
        Figure(name="empty_case_2_ranks", value=round(statistics.median(two), 3), unit="ms", compare="<=", goal=1),
        Figure(name="empty_case_8_ranks", value=round(statistics.median(eight), 3), unit="ms", compare="<=", goal=2.5),
        by_bare_pytest("empty_case_2_ranks", two, bare, at_most=4),
        by_bare_pytest("empty_case_8_ranks", eight, bare, at_most=11),  # 2.5 ms where pytest alone takes 0.23 ms
    ]


def by_bare_pytest(name: str, ours: Iterable[float], bare: Iterable[float], at_most: float) -> Figure:
    """The median of what each round has seen: processors of shared machines differ by more than a factor of two."""
    ratio = statistics.median(one / alone for one, alone in zip(ours, bare, strict=True))
    return Figure(name=f"{name}_by_bare_pytest", value=round(ratio, 2), unit="times", compare="<=", goal=at_most)


def bare_ms(folder: Path) -> float:
    """The same file in one process with nothing of ours."""
    program = Path(__file__).with_name("bare_pytest.py")
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([sys.executable, program, folder], env=environ, capture_output=True, text=True, check=True)
    return float(done.stdout)
