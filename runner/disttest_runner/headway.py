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

from disttest_contract import gist
from disttest_contract.progress import FAILURES, Failure, Progress
from disttest_contract.ranks import show
from disttest_contract.report import CaseResult
from disttest_runner.log import PROGRESS_LINE_BYTES

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
class Failures:
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
        ranks=show(result.ranks),
        nodes=result.nodes,
        message=gist_of(result.message),
    )


def gist_of(message: str) -> str:
    """The line that says most: ranks and nodes stand beside it."""
    lines = gist.marked(message) or [line.strip() for line in message.splitlines() if line.strip()]
    return next(iter(lines), "")[:MESSAGE_CHARACTERS]


class Headway:
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
