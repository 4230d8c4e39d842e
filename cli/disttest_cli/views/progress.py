"""A run that is waited for, as it is told to people: lines for a log, or the foot of a terminal."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from disttest_cli import lazy
from disttest_cli.kube import fields
from disttest_cli.views import status_lines
from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.transport.progress import Failure, Progress

if TYPE_CHECKING:
    from disttest_cli.views import live
    from disttest_cli.views.live import LiveView
else:
    live, LiveView = lazy.module("disttest_cli.views.live"), object

PROGRESS_SECONDS = 30  # between two lines that say how far a run is

Say = Callable[[str], None]


class ProgressView(Protocol):
    """Hears of every state of a run, also of such as say nothing new."""

    def see(self, status: Mapping[str, Any]) -> None: ...


def progress_of(status: Mapping[str, Any]) -> Progress | None:
    """None as long as the leader has not been heard of."""
    told = fields.mapping(status.get("progress"))
    if not told:
        return None
    return Progress(
        step=fields.text(told.get("step")) or fields.text(status.get("phase")),
        nodes_joined=fields.count(told.get("nodesJoined")),
        suite=fields.text(told.get("suite")),
        current_case=fields.text(told.get("currentCase")),
        cases_done=fields.count(told.get("casesDone")),
        cases_total=fields.count(told.get("casesTotal")),
        suites_done=fields.count(told.get("suitesDone")),
        counts=Counts.from_json(fields.mapping(told.get("cases"))),
        failures=tuple(_failure(row) for row in fields.rows(told.get("failures"))),
    )


def _failure(row: Mapping[str, Any]) -> Failure:
    outcome = fields.text(row.get("outcome"))
    return Failure(
        suite=fields.text(row.get("suite")),
        case=fields.text(row.get("case")),
        outcome=Outcome(outcome) if outcome in set(Outcome) else Outcome.ERRORED,
        ranks=fields.rank_words(row.get("ranks")),
        nodes=tuple(fields.texts(row.get("nodes"))),
        message=fields.text(row.get("message")),
    )


@dataclass(slots=True)
class ProgressLines:
    """For a log: where the run is when that changes, each failure once an attempt, and seldom how far it is."""

    say: Say
    now: Callable[[], float]
    _headline: str = ""
    _attempt: Any = None
    _failures: set[tuple[str, str]] = field(default_factory=set)
    _progress: str = ""
    _told_at: float = float("-inf")

    def see(self, status: Mapping[str, Any]) -> None:
        headline = status_lines.headline(status)
        if headline != self._headline:
            self.say(headline)
        self._headline = headline
        if status.get("attempt") != self._attempt:
            self._failures.clear()
            self._attempt = status.get("attempt")
        if progress := progress_of(status):
            self._tell_failures(progress)
            self._tell_progress(status_lines.far(progress))

    def _tell_failures(self, progress: Progress) -> None:
        for failure in progress.failures:
            key = failure.suite, failure.case
            if key not in self._failures:
                self._failures.add(key)
                self.say(live.failure_line(failure).plain)

    def _tell_progress(self, words: str) -> None:
        if words and words != self._progress and self.now() - self._told_at >= PROGRESS_SECONDS:
            self._progress, self._told_at = words, self.now()
            self.say(words)


@dataclass(slots=True)
class Live:
    """For a terminal: above its foot what the run waits for and what failed, at its foot where it is."""

    view: LiveView
    _headline: str = ""

    def see(self, status: Mapping[str, Any]) -> None:
        headline = status_lines.headline(status)
        if headline != self._headline and status.get("message"):
            self.view.say(headline)
        self._headline = headline
        progress = progress_of(status) if status.get("phase") == "Running" else None
        # An empty one in place of none: of the attempt before nothing is to stay.
        self.view.feed(progress or Progress(step=fields.text(status.get("phase")) or "created"))
