"""A measured number, its goal and its line, and docs/development/figures.txt with the newest lines."""

import operator
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
LINE = re.compile(r"^FIGURE (\S+) ")
FILE = Path(__file__).resolve().parents[1] / "docs/development/figures.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    value: float
    unit: str
    compare: str  # a key of COMPARE
    goal: float

    @property
    def is_met(self) -> bool:
        return bool(COMPARE[self.compare](self.value, self.goal))

    @property
    def line(self) -> str:
        judged = "met" if self.is_met else "missed"
        return f"FIGURE {self.name} {self.value:g} {self.unit} goal {self.compare}{self.goal:g} {judged}"


def at_most(name: str, value: float, unit: str, goal: float, *, digits: int = 2) -> Figure:
    """A figure, rounded to `digits` after the point, that must not be greater than its goal."""
    return Figure(name=name, value=round(value, digits), unit=unit, compare="<=", goal=goal)


def at_least(name: str, value: float, unit: str, goal: float, *, digits: int = 2) -> Figure:
    return Figure(name=name, value=round(value, digits), unit=unit, compare=">=", goal=goal)


def exactly(name: str, value: float, unit: str, goal: float = 0) -> Figure:
    return Figure(name=name, value=value, unit=unit, compare="==", goal=goal)


def merge(old: list[str], new: list[str]) -> list[str]:
    """Keep the newest line of each name, sorted by name."""
    lines: dict[str, str] = {}
    for line in [*old, *new]:
        if found := LINE.match(line):
            lines[found[1]] = line
    return [lines[name] for name in sorted(lines)]


def record(figures: Iterable[Figure]) -> None:
    """Write the figures to docs/development/figures.txt, each with the date and the machine; other lines stay."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    stamp = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}"
    old = FILE.read_text().splitlines() if FILE.exists() else []
    FILE.write_text("\n".join(merge(old, [f"{figure.line}   # {stamp}" for figure in figures])) + "\n")
