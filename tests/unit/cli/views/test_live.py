"""The live view of an active run."""

import dataclasses
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from disttest_cli.views import live, terminal
from disttest_cli.views.live import GangShape, LiveView
from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.transport.progress import Failure, Progress
from tests.support.builders import strategies
from tests.support.reports.hostile import NASTY, forbidden

GANG = GangShape(nodes=2, ranks_per_node=4, suites=2)
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold]te\nst\u202e"
FAILURE = Failure(
    suite="mine", case="t.py::test_a", outcome=Outcome.FAILED, ranks="0-2", nodes=("a", "b"), message="no"
)


TERMINAL = {"TERM": "xterm"}  # not that of the tests, which may be dumb


def a_console(columns: int = 100) -> Console:
    return Console(
        file=io.StringIO(),
        width=columns,
        force_terminal=True,
        color_system=None,
        markup=False,
        _environ=TERMINAL,
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown(progress: Progress | None, columns: int = 100, **seconds: float) -> list[str]:
    """The lines, without what draws the bar."""
    console = a_console(columns)
    times = {"step_for": 0.0, "case_for": 0.0} | seconds
    step = progress.step if progress else "starting"
    console.print(live.render(progress, GANG, step=step, **times))
    return [re.sub(r"[━╸╺ ]{10,}", "|", line).rstrip() for line in written(console).splitlines()]


RUNNING = Progress(
    step="running",
    nodes_joined=2,
    suite="mine",
    current_case="t.py::test_c",
    cases_done=2,
    cases_total=10,
    suites_done=0,
    counts=Counts(by_outcome={Outcome.PASSED: 1, Outcome.HUNG: 1}),
)


@pytest.mark.parametrize(
    ("progress", "lines"),
    [
        (None, ["starting|8 ranks 5 s"]),
        (Progress(step="joining", nodes_joined=1), ["joining|1 of 2 nodes joined · 8 ranks 5 s"]),
        (
            RUNNING,
            ["running|2/10 cases so far · 1 passed · 1 failed · suite 1 of 2 5 s", "  mine: t.py::test_c  1:01:01"],
        ),
        (
            Progress(
                step="finished", cases_done=4, cases_total=4, suites_done=2, counts=Counts.of([Outcome.PASSED] * 4)
            ),
            ["finished|4/4 cases · 4 passed · suite 2 of 2 5 s"],
        ),
    ],
)
def test_a_step_is_shown_with_what_is_known_at_it(progress: Progress | None, lines: list[str]) -> None:
    assert shown(progress, step_for=5.2, case_for=3661.0) == lines


def test_a_long_case_is_cut_so_that_its_seconds_are_seen() -> None:
    progress = Progress(step="running", suite="s", current_case="x" * 300, cases_total=1)
    line = shown(progress, columns=60, case_for=7.0)[-1]
    assert line.startswith("  s: xxxx")
    assert line.endswith("…  7 s")
    assert len(line) <= 60


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (FAILURE, "failed mine: t.py::test_a (ranks 0-2 on a, b): no"),
        (Failure(suite="s", case="c", outcome=Outcome.CRASHED, ranks="7"), "crashed s: c (rank 7)"),
        (Failure(suite="s", case="c", outcome=Outcome.HUNG, message="first\nsecond"), "hung s: c: first"),
    ],
)
def test_a_failure_is_one_line(failure: Failure, line: str) -> None:
    assert live.failure_line(failure).plain == line


def test_nothing_that_test_code_wrote_steers_the_terminal() -> None:
    progress = Progress(
        step=HOSTILE,
        suite=HOSTILE,
        current_case=HOSTILE,
        cases_total=1,
        failures=(
            Failure(
                suite=HOSTILE, case=HOSTILE, outcome=Outcome.FAILED, ranks=HOSTILE, nodes=(HOSTILE,), message=HOSTILE
            ),
        ),
    )
    console = a_console(2000)
    view = LiveView(console, GANG)
    view.feed(progress)
    view.say(HOSTILE)
    console.print(live.render(progress, GANG, step=HOSTILE, step_for=0, case_for=0))
    text = written(console)
    assert not {"\x1b[2J", "\x1b]", "\x07", "\u202e"} & {
        found for found in ("\x1b[2J", "\x1b]", "\x07", "\u202e") if found in text
    }
    assert "\\x1b[2J\\x1b]0;owned\\x07[bold]te st\\u202e" in text
    assert len(text.splitlines()) == 4


def test_each_failure_is_said_once_above_the_bar() -> None:
    console = a_console()
    view = LiveView(console, GANG)
    other = Failure(suite="mine", case="t.py::test_b", outcome=Outcome.CRASHED)
    for failures in ((FAILURE,), (FAILURE,), (FAILURE, other), (other,), (FAILURE, other)):
        view.feed(Progress(step="running", cases_total=9, failures=failures))
    assert written(console).splitlines() == [live.failure_line(FAILURE).plain, live.failure_line(other).plain]


def test_the_terminal_is_left_as_it_was_whatever_ends_the_view() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard", _environ=TERMINAL)

    def broken() -> None:
        with LiveView(console, GANG) as view:
            view.feed(RUNNING)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    text = written(console)
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is there again"
    assert text.endswith("\x1b[2K"), "the bar is gone"


def test_seconds_of_a_case_begin_with_it() -> None:
    now = [100.0]
    console = a_console()
    view = LiveView(console, GANG, clock=lambda: now[0])
    view.feed(RUNNING)
    now[0] += 30
    view.feed(RUNNING)  # still the same
    now[0] += 12
    console.print(view)
    assert "t.py::test_c  42 s" in written(console)


@pytest.mark.parametrize(
    ("number", "text"), [(-1.0, "0 s"), (59.9, "59 s"), (60, "1:00"), (3599, "59:59"), (7384, "2:03:04")]
)
def test_seconds_as_people_read_them(number: float, text: str) -> None:
    assert live.seconds(number) == text


@pytest.mark.parametrize(
    ("terminal", "term", "fits"), [(True, "xterm", True), (True, "dumb", False), (False, "xterm", False)]
)
def test_it_needs_a_terminal_that_can_redraw(*, terminal: bool, term: str, fits: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, _environ={"TERM": term})
    assert live.fits(console) is fits


@given(strategies.texts | st.just(NASTY), st.integers(20, 120))
def test_lines_of_any_progress_fit_and_are_sanitized(text: str, columns: int) -> None:
    progress = dataclasses.replace(RUNNING, step=text, suite=text, current_case=text)
    for state in (progress, dataclasses.replace(progress, cases_total=0)):
        console = a_console(columns)
        console.print(live.render(state, GANG, step=text, step_for=1, case_for=1e9))
        assert forbidden(written(console)) == []
        assert max(map(cell_len, written(console).splitlines())) <= columns


@given(strategies.texts | st.just(NASTY), strategies.texts)
def test_whatever_has_failed_is_one_line_that_steers_nothing(text: str, other: str) -> None:
    failure = dataclasses.replace(FAILURE, suite=text, case=other, ranks=text, nodes=(other,), message=text)
    line = live.failure_line(failure).plain
    assert forbidden(line) == []
    assert "\n" not in line


@given(st.lists(st.tuples(strategies.texts, strategies.texts), max_size=4))
def test_columns_stand_below_each_other_whatever_is_in_them(rows: list[tuple[str, str]]) -> None:
    lines = [line.plain for line in terminal.table([["A", "B", "Z"], *([*row, "Z"] for row in rows)])]
    assert [bad for line in lines for bad in forbidden(line)] == []
    assert len({cell_len(line) for line in lines}) == 1
    assert all(line.endswith("  Z") for line in lines)
