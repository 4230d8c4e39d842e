"""The status of a run as lines for a log or for the live view, while a command waits for its verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disttest_cli import fields, lazy
from disttest_cli.formats import values
from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.text import formatting
from disttest_contract.transport.progress import Progress

NOT_SEEN = "created, not processed by an operator yet"
LINE_BYTES = 500
MAX_FAILURES = 20
OUTCOMES = (  # in the order of display; zeros are omitted
    Outcome.PASSED,
    Outcome.FAILED,
    Outcome.ERRORED,
    Outcome.CRASHED,
    Outcome.HUNG,
    Outcome.SKIPPED,
    Outcome.XFAILED,
    Outcome.XPASSED,
    Outcome.NOT_RUN,
)


def headline(status: Mapping[str, Any]) -> str:
    """Phase, attempt and message in one line, which stays the same until one of them changes."""
    phase = status.get("phase")
    if not phase:
        return NOT_SEEN
    attempt = status.get("attempt") or 1
    place = f"{phase}, attempt {attempt}" if attempt > 1 else str(phase)
    message = one_line(status.get("message"))
    return f"{place}: {message}" if message else place


def progress_line(progress: Progress) -> str:
    """Progress in one line; empty if there is nothing to count."""
    if not progress.cases_total:
        return f"{formatting.counted(progress.nodes_joined, 'node')} joined" if progress.nodes_joined else ""
    parts = [f"{progress.cases_done}/{progress.cases_total} cases", f"{progress.counts[Outcome.PASSED]} passed"]
    parts += [f"{progress.counts.red} failed"] if progress.counts.red else []
    case = f"; running: {progress.suite}: {progress.current_case}" if progress.current_case else ""
    return one_line(", ".join(parts) + case)


def ending(status: Mapping[str, Any]) -> list[str]:
    """Failures, counts and report; the verdict is the last line, which a termination message always contains."""
    lines = [_failure(entry) for entry in (status.get("failures") or ())[:MAX_FAILURES]]
    counts = Counts.from_json(status.get("cases") or {})
    if counts.total:
        lines.append(f"cases: {counted(counts)}")
    if report := status.get("report"):
        lines.append(f"report: ConfigMap {report.get('configMap', '')}")
    lines.append(f"{status['verdict']} ({status.get('reason', '')}): {one_line(status.get('message'))}")
    return lines


def gist_of(message: str) -> list[str]:
    """The lines of a message that pytest marks as errors; all lines if there are none."""
    lines = [line.rstrip() for line in message.expandtabs(4).splitlines() if line.strip()]
    return formatting.marked_lines(message) or lines


def one_line(text: Any) -> str:
    return limits.cut(" ".join(str(text or "").split()), LINE_BYTES)


def counted(counts: Counts) -> str:
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in OUTCOMES if counts[outcome]]
    marked = (counts.flaky, "flaky"), (counts.quarantined, "in quarantine")
    marks = [f"{number} {mark}" for number, mark in marked if number]
    return f"{counts.total}: {', '.join(parts)}" + (f" ({', '.join(marks)})" if marks else "")


def _failure(entry: Mapping[str, Any]) -> str:
    how = next((mark for mark in ("flaky", "quarantined") if entry.get(mark)), entry.get("outcome", ""))
    where = values.where(fields.rank_words(entry.get("ranks")), fields.texts(entry.get("nodes")))
    message = " ".join(gist_of(str(entry.get("message") or "")))
    return one_line(
        f"{how}: {entry.get('suite', '')}: {entry.get('case', '')}{f' {where}' if where else ''}: {message}"
    )


if TYPE_CHECKING:
    from disttest_cli.views import live
    from disttest_cli.views.live import LiveView
else:
    live, LiveView = lazy.module("disttest_cli.views.live"), object

PROGRESS_SECONDS = 30  # between two lines with progress

Say = Callable[[str], None]


def progress_of(status: Mapping[str, Any]) -> Progress | None:
    """None until the leader has reported, and for values of other types, which the CRD of another version can allow."""
    found = fields.mapping(status.get("progress"))
    data = {"step": status.get("phase"), **found, "counts": fields.mapping(found.get("cases"))}
    try:
        return Progress.from_json({key: value for key, value in data.items() if value is not None}) if found else None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


@dataclass(slots=True)
class ProgressLines:
    """For a log: the headline when it changes, each failure once per attempt, and progress every 30 seconds."""

    say: Say
    now: Callable[[], float]
    _headline: str = ""
    _attempt: Any = None
    _failures: set[tuple[str, str]] = field(default_factory=set)
    _progress: str = ""
    _reported_at: float = float("-inf")

    def see(self, status: Mapping[str, Any]) -> None:
        line = headline(status)
        if line != self._headline:
            self.say(line)
        self._headline = line
        if status.get("attempt") != self._attempt:
            self._failures.clear()
            self._attempt = status.get("attempt")
        if progress := progress_of(status):
            self._say_failures(progress)
            self._say_progress(progress_line(progress))

    def _say_failures(self, progress: Progress) -> None:
        for failure in progress.failures:
            key = failure.suite, failure.case
            if key not in self._failures:
                self._failures.add(key)
                self.say(live.failure_line(failure).plain)

    def _say_progress(self, words: str) -> None:
        if words and words != self._progress and self.now() - self._reported_at >= PROGRESS_SECONDS:
            self._progress, self._reported_at = words, self.now()
            self.say(words)


@dataclass(slots=True)
class LiveProgress:
    """For a terminal: progress in the live view; messages and failures above it."""

    view: LiveView
    _headline: str = ""

    def see(self, status: Mapping[str, Any]) -> None:
        line = headline(status)
        if line != self._headline and status.get("message"):
            self.view.say(line)
        self._headline = line
        progress = progress_of(status) if status.get("phase") == "Running" else None
        # Empty progress replaces that of the last attempt.
        self.view.feed(progress or Progress(step=fields.text(status.get("phase")) or "created"))
