"""Live view of a run in the last lines of a terminal: progress and the current case, with failures above.

The caller passes progress to the view; it reads nothing itself.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from disttest_cli.formats import values
from disttest_cli.views import terminal
from disttest_contract.outcomes import Outcome
from disttest_contract.text import escaping, formatting
from disttest_contract.transport.progress import Failure, Progress

BAR_COLUMNS = 30
FRAMES_A_SECOND = 4


def fits(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class GangShape:
    nodes: int
    ranks_per_node: int
    suites: int


class LiveView:
    """A context manager that owns the last lines of the terminal; other output must use `say`."""

    def __init__(self, console: Console, gang: GangShape, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._gang, self._clock = console, gang, clock
        self._step, self._step_since = "starting", clock()
        self._progress: Progress | None = None
        self._case_since = clock()
        self._reported: set[tuple[str, str]] = set()
        self._live = Live(
            get_renderable=self.__rich__, console=console, refresh_per_second=FRAMES_A_SECOND, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def feed(self, progress: Progress) -> None:
        before, self._progress = self._progress, progress
        if before is None or (before.suite, before.current_case) != (progress.suite, progress.current_case):
            self._case_since = self._clock()
        if progress.step != self._step:
            self._step, self._step_since = progress.step, self._clock()
        for failure in progress.failures:
            if (key := (failure.suite, failure.case)) not in self._reported:
                self._reported.add(key)
                self._console.print(failure_line(failure))

    def say(self, line: str | Text) -> None:
        """Print a line above; strings are sanitized."""
        self._console.print(line if isinstance(line, Text) else Text(escaping.line(line)))

    def __rich__(self) -> RenderableType:
        now = self._clock()
        return render(
            self._progress,
            self._gang,
            step=self._step,
            step_for=now - self._step_since,
            case_for=now - self._case_since,
        )


def render(
    progress: Progress | None, gang: GangShape, *, step: str, step_for: float, case_for: float
) -> RenderableType:
    """At most two lines; `step_for` and `case_for` are seconds."""
    if progress is None or not progress.cases_total:
        nodes = formatting.counted(gang.nodes, "node")
        joined = f"{progress.nodes_joined} of {nodes} joined" if progress and progress.nodes_joined else ""
        ranks = formatting.counted(gang.nodes * gang.ranks_per_node, "rank")
        return _line(
            step,
            ProgressBar(total=None, width=BAR_COLUMNS, pulse_style=terminal.GOOD),
            " · ".join(filter(None, (joined, ranks))),
            step_for,
        )
    style = terminal.BROKEN if progress.counts.red else terminal.GOOD
    bar = ProgressBar(
        total=progress.cases_total,
        completed=progress.cases_done,
        width=BAR_COLUMNS,
        complete_style=style,
        finished_style=style,
    )
    head = _line(progress.step, bar, summary(progress, gang), step_for)
    if not progress.current_case:
        return head
    case = f"{progress.suite}: {progress.current_case}"
    return Group(head, _Fitting(f"  {escaping.line(case)}", f"  {seconds(case_for)}"))


def _line(step: str, bar: ProgressBar, text: str, step_for: float) -> RenderableType:
    line = Table.grid(padding=(0, 1))
    for _ in range(4):
        line.add_column(no_wrap=True)
    line.add_row(
        Text(escaping.line(step), style=terminal.STRONG),
        bar,
        Text(text),
        Text(seconds(step_for), style=terminal.QUIET),
    )
    return line


@dataclass(frozen=True, slots=True)
class _Fitting:
    """Truncates `text` so that `behind` is visible."""

    text: str
    behind: str

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        line = Text(self.text, style=terminal.QUIET, no_wrap=True)
        line.truncate(max(1, options.max_width - len(self.behind)), overflow="ellipsis")
        yield line.append(self.behind)


def summary(progress: Progress, gang: GangShape) -> str:
    bad = progress.counts.red
    more = " so far" if progress.suites_done + 1 < gang.suites else ""
    parts = [
        f"{progress.cases_done}/{progress.cases_total} cases{more}",
        f"{progress.counts[Outcome.PASSED]} passed",
        f"{bad} failed" if bad > 0 else "",
        f"suite {min(progress.suites_done + 1, gang.suites)} of {gang.suites}" if gang.suites > 1 else "",
    ]
    return " · ".join(part for part in parts if part)


def failure_line(failure: Failure) -> Text:
    """`failed mine: test_it.py::test_a (rank 1 on node-b): message`, sanitized."""
    where = values.where(failure.ranks, failure.nodes)
    text = f" {failure.suite}: {failure.case}" + (f" ({where})" if where else "")
    message = failure.message.strip().splitlines()
    text += f": {message[0]}" if message else ""
    return Text.assemble(terminal.styled(failure.outcome.value), f" {escaping.line(text)}")


def seconds(number: float) -> str:
    """`7 s`, `3:07`, `1:02:03`."""
    whole = max(0, int(number))
    hours, rest = divmod(whole, 3600)
    if whole < 60:
        return f"{whole} s"
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
