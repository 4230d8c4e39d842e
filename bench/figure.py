"""One measured number, its goal, and the line it is printed as."""

import operator
import re
from dataclasses import dataclass

COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
LINE = re.compile(r"^FIGURE (\S+) ")


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


def merge(old: list[str], new: list[str]) -> list[str]:
    """The newest line of each name; lines of other benchmarks stay."""
    lines: dict[str, str] = {}
    for line in [*old, *new]:
        if found := LINE.match(line):
            lines[found[1]] = line
    return [lines[name] for name in sorted(lines)]
