import pytest

from bench.figure import Figure, merge


@pytest.mark.parametrize(
    ("value", "compare", "word"),
    [(1.0, "<=", "met"), (2.5, "<=", "missed"), (2.5, ">=", "met"), (2.0, "==", "met"), (0.0, "==", "missed")],
)
def test_a_figure_says_whether_its_goal_is_met(value: float, compare: str, word: str) -> None:
    figure = Figure(name="n", value=value, unit="s", compare=compare, goal=2)
    assert figure.line == f"FIGURE n {value:g} s goal {compare}2 {word}"


def test_the_newest_line_of_a_name_replaces_the_old_one_and_others_stay() -> None:
    old = ["FIGURE a 1 s goal <=2 met", "FIGURE b 1 s goal <=2 met", "not a figure"]
    assert merge(old, ["FIGURE a 3 s goal <=2 missed"]) == ["FIGURE a 3 s goal <=2 missed", "FIGURE b 1 s goal <=2 met"]
