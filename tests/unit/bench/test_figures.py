import os
import sys

import pytest

from bench import reports
from bench.figure import Figure, merge


@pytest.mark.parametrize(
    ("value", "compare", "word"),
    [(1.0, "<=", "met"), (2.5, "<=", "missed"), (2.5, ">=", "met"), (2.0, "==", "met"), (0.0, "==", "missed")],
)
def test_a_figure_shows_whether_its_goal_is_met(value: float, compare: str, word: str) -> None:
    figure = Figure(name="n", value=value, unit="s", compare=compare, goal=2)
    assert figure.line == f"FIGURE n {value:g} s goal {compare}2 {word}"


def test_the_newest_line_of_a_name_replaces_the_old_one_and_others_stay() -> None:
    old = ["FIGURE a 1 s goal <=2 met", "FIGURE b 1 s goal <=2 met", "not a figure"]
    assert merge(old, ["FIGURE a 3 s goal <=2 missed"]) == ["FIGURE a 3 s goal <=2 missed", "FIGURE b 1 s goal <=2 met"]


def test_a_command_with_another_exit_code_ends_the_benchmark() -> None:
    command = [sys.executable, "-c", "raise SystemExit(1)"]
    assert reports.used_by(command, os.environ, code=1)[0] > 0
    with pytest.raises(SystemExit, match="ended with exit code 1, not 0"):
        reports.used_by(command, os.environ)
