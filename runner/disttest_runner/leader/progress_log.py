"""The leader's lines on how far the run is: for programs that follow the log, in few bytes and at no cost to cases.

Their share of the log, PROGRESS_LINE_BYTES, lasts for the whole of the run. After a line of n bytes the next one comes
no sooner than 5 s, and no sooner than n / bytes left * seconds left: lines that keep this pace never use up the share,
so a run of a day still moves at its end. What should be seen at once (a step, a suite, agents that join) does not wait
for the pace, unless less than half is left of what is due to the rest of the run.
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
JOIN_SECONDS = 1.0  # for the line on an agent that joins: hundreds do so together
MESSAGE_CHARACTERS = 128  # of a failure: with five of them a line is mostly that


@dataclass(slots=True)
class Pace:
    """When lines may come. Seconds are of any clock that only goes forward; `ends`: the run is over at the latest."""

    started: float
    ends: float
    left_bytes: int = PROGRESS_LINE_BYTES
    due: float = 0.0
    line_seconds: float = LINE_SECONDS

    @classmethod
    def unbounded(cls, now: float) -> "Pace":
        """For whoever draws what it reads at once, of a log that is not kept."""
        return cls(started=now, ends=now, left_bytes=sys.maxsize, line_seconds=LIVE_SECONDS)

    def spend(self, size_bytes: int, now: float) -> None:
        self.left_bytes -= size_bytes
        seconds = max(0.0, self.ends - now)
        self.due = now + max(self.line_seconds, seconds * size_bytes / max(1, self.left_bytes))

    def urgent(self, now: float) -> float:
        """When a line may come that should be seen at once."""
        part = max(0.0, self.ends - now) / max(1.0, self.ends - self.started)
        return now if self.left_bytes > PROGRESS_LINE_BYTES * part / 2 else max(now, self.due)


@dataclass(slots=True)
class FailedCases:
    """Cases that are bad so far, the newest last; none that is in quarantine."""

    _bad: dict[tuple[str, int], CaseResult] = field(default_factory=dict)

    def note(self, suite: str, number: int, result: CaseResult) -> None:
        """What the case at this place of the suite has come to, now."""
        key = (suite, number)
        if self._bad:
            self._bad.pop(key, None)
        if result.is_red:
            self._bad[key] = result

    def newest(self) -> tuple[Failure, ...]:
        found = itertools.islice(reversed(self._bad.items()), FAILURES)
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
    """The line that says most: ranks and nodes stand beside it."""
    lines = formatting.marked(message) or [line.strip() for line in message.splitlines() if line.strip()]
    return next(iter(lines), "")[:MESSAGE_CHARACTERS]


class ProgressLog:
    """`look` says how far the run is, `write` puts a line into the log."""

    def __init__(self, pace: Pace, look: Callable[[], Progress], write: Callable[[str], None], nonce: str) -> None:
        self._pace, self._look, self._write, self._nonce = pace, look, write, nonce
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._last = ""

    def change(self) -> None:
        """Something is new, as with every case: costs next to nothing."""
        if self._timer is None:
            self._timer = self._loop.call_at(self._pace.due, self._say)

    def change_now(self, within_seconds: float = 0.0) -> None:
        """Something is new that should be seen at once."""
        at = self._pace.urgent(self._loop.time()) + within_seconds
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._say)

    def end(self) -> None:
        """The last line."""
        if self._timer is not None:
            self._timer.cancel()
        self._say()

    def _say(self) -> None:
        self._timer = None
        line = self._look().to_line(self._nonce)
        if line != self._last:
            self._last = line
            self._pace.spend(len(line) + 1, self._loop.time())
            self._write(line)


MESSAGE_LINES = 6  # of a failure's end


def is_bad(result: CaseResult) -> bool:
    return result.outcome in BAD


def case_line(suite: str, number: int, total: int, result: CaseResult) -> str:
    width = len(str(total))
    head = f"[{number:>{width}}/{total}] {result.outcome:<7} {result.seconds:7.2f} s  {suite}: {result.id}"
    if result.earlier:
        head = f"{head}  (try {len(result.earlier) + 1}: {result.earlier[-1].outcome} before)"
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
    """The first line says who, the last ones what."""
    lines = [line for line in message.splitlines() if line.strip()] or [""]
    return (
        lines if len(lines) <= count else [lines[0], "…", *lines[len(lines) - count + 2 :]] if count > 1 else lines[:1]
    )
