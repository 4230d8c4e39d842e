"""The leader's progress lines: for programs that follow the log, in few bytes and without delaying cases.

Their share of the log, PROGRESS_LINE_BYTES, lasts for the whole run. After a line of n bytes the next one is written
after 5 s at the earliest, and after n / bytes left * seconds left: lines at this pace never use up the share, so a run
of a day still reports progress at its end. Urgent lines (a step, a suite, agents that join) do not wait for the pace,
unless less than half is left of what is due to the rest of the run.
"""

import asyncio
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.results.report import CaseResult, SuiteResult
from disttest_contract.text import formatting
from disttest_contract.text.formatting import show_ranks
from disttest_contract.transport.progress import FAILURES, Failure, Progress
from disttest_runner.output.log import PROGRESS_LINE_BYTES

LINE_SECONDS = 5.0
LIVE_SECONDS = 0.2
RENDEZVOUS_SECONDS = 1.0  # for the line on agents that join: hundreds do so together
MESSAGE_CHARACTERS = 128  # of a failure, of which a progress line has up to five


@dataclass(slots=True)
class Pace:
    """Decides when lines may be written. Times are of a monotonic clock; `ends` is the run's deadline."""

    started: float
    ends: float
    left_bytes: int = PROGRESS_LINE_BYTES
    due: float = 0.0
    line_seconds: float = LINE_SECONDS

    @classmethod
    def unbounded(cls, now: float) -> "Pace":
        """For a log that is not stored, whose reader displays each line at once."""
        return cls(started=now, ends=now, left_bytes=sys.maxsize, line_seconds=LIVE_SECONDS)

    def spend(self, size_bytes: int, now: float) -> None:
        self.left_bytes -= size_bytes
        seconds = max(0.0, self.ends - now)
        self.due = now + max(self.line_seconds, seconds * size_bytes / max(1, self.left_bytes))

    def urgent(self, now: float) -> float:
        """Return when an urgent line may be written."""
        part = max(0.0, self.ends - now) / max(1.0, self.ends - self.started)
        return now if self.left_bytes > PROGRESS_LINE_BYTES * part / 2 else max(now, self.due)


@dataclass(slots=True)
class FailedCases:
    """Cases that have failed so far, the newest last, without those in quarantine."""

    _failed: dict[tuple[str, int], CaseResult] = field(default_factory=dict)

    def note(self, suite: str, number: int, result: CaseResult) -> None:
        """Record the current result of the case at this place of the suite."""
        key = (suite, number)
        if self._failed:
            self._failed.pop(key, None)
        if result.is_red:
            self._failed[key] = result

    def newest(self) -> tuple[Failure, ...]:
        found = itertools.islice(reversed(self._failed.items()), FAILURES)
        return tuple(_failure(suite, result) for (suite, _), result in found)[::-1]


def _failure(suite: str, result: CaseResult) -> Failure:
    return Failure(
        suite=suite,
        case=result.id,
        outcome=result.outcome,
        ranks=show_ranks(result.ranks),
        nodes=result.nodes,
        message=gist_of(result.message),
    )


def gist_of(message: str) -> str:
    """Return the line with most information; ranks and nodes are in separate fields."""
    lines = formatting.marked_lines(message) or [line.strip() for line in message.splitlines() if line.strip()]
    return next(iter(lines), "")[:MESSAGE_CHARACTERS]


class ProgressLog:
    """Writes a line with `write` when the result of `snapshot` changes, at the pace of `pace`."""

    def __init__(self, pace: Pace, snapshot: Callable[[], Progress], write: Callable[[str], None], nonce: str) -> None:
        self._pace, self._snapshot, self._write_line, self._nonce = pace, snapshot, write, nonce
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._last = ""

    def change(self) -> None:
        """Schedule a line at the usual pace. Called for every case, so it is cheap."""
        if self._timer is None:
            self._timer = self._loop.call_at(self._pace.due, self._write)

    def change_now(self, within_seconds: float = 0.0) -> None:
        at = self._pace.urgent(self._loop.time()) + within_seconds
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._write)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._write()

    def _write(self) -> None:
        self._timer = None
        line = self._snapshot().to_line(self._nonce)
        if line != self._last:
            self._last = line
            self._pace.spend(len(line) + 1, self._loop.time())
            self._write_line(line)


MESSAGE_LINES = 6  # of a failure


def is_bad(result: CaseResult) -> bool:
    return result.outcome in BAD


def case_line(suite: str, number: int, total: int, result: CaseResult) -> str:
    width = len(str(total))
    head = f"[{number:>{width}}/{total}] {result.outcome:<7} {result.seconds:7.2f} s  {suite}: {result.id}"
    if result.earlier:
        head = f"{head}  (rerun {len(result.earlier)}: {result.earlier[-1].outcome} before)"
    if result.is_excused:
        head = f"{head}  (in quarantine)"
    if is_bad(result):
        return "\n".join([head, *(f"      {line}" for line in last_lines(result.message))])
    if result.outcome in (Outcome.SKIPPED, Outcome.NOT_RUN, Outcome.XFAILED, Outcome.XPASSED) and result.message:
        return f"{head}  ({last_lines(result.message, 1)[0]})"
    return head


def suite_line(result: SuiteResult) -> str:
    head = f"suite {result.name}: {result.verdict} after {result.seconds:.1f} s"
    if result.verdict is Verdict.PASSED:
        return f"{head}, {result.message}"
    return "\n".join([f"{head} ({result.reason})", *(f"      {line}" for line in last_lines(result.message))])


def last_lines(message: str, count: int = MESSAGE_LINES) -> list[str]:
    """Return the first line, which names ranks, and the last ones, which have the error."""
    lines = [line for line in message.splitlines() if line.strip()] or [""]
    if len(lines) <= count or count == 1:
        return lines[:count]
    return [lines[0], "…", *lines[len(lines) - count + 2 :]]
