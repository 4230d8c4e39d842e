"""A run in words: lines for a log, from its status. No I/O."""

from collections.abc import Mapping
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.text import formatting
from disttest_contract.transport.progress import Progress

NOBODY = "created; no operator has looked at it yet"
LINE_BYTES = 500
MAX_FAILURES = 20
OUTCOMES = (  # in the order in which they are told; those that are 0 are not
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
    """Where the run is, in one line; the same words as long as nothing happens."""
    phase = status.get("phase")
    if not phase:
        return NOBODY
    attempt = status.get("attempt") or 1
    place = f"{phase}, attempt {attempt}" if attempt > 1 else str(phase)
    message = one_line(status.get("message"))
    return f"{place}: {message}" if message else place


def far(progress: Progress) -> str:
    """How far the run is, in one line; nothing as long as there is nothing to count."""
    if not progress.cases_total:
        return f"{progress.nodes_joined} nodes have joined" if progress.nodes_joined else ""
    red = progress.counts.bad - progress.counts.quarantined
    parts = [f"{progress.cases_done}/{progress.cases_total} cases", f"{progress.counts[Outcome.PASSED]} passed"]
    parts += [f"{red} failed"] if red else []
    case = f"; in flight: {progress.suite}: {progress.current_case}" if progress.current_case else ""
    return one_line(", ".join(parts) + case)


def ending(status: Mapping[str, Any]) -> list[str]:
    """The verdict, and what led to it; the verdict is the last line, which a pod's termination message surely has."""
    lines = [_failure(entry) for entry in (status.get("failures") or ())[:MAX_FAILURES]]
    counts = Counts.from_json(status.get("cases") or {})
    if counts.total:
        lines.append(f"cases: {counted(counts)}")
    if report := status.get("report"):
        lines.append(f"report: ConfigMap {report.get('configMap', '')}")
    lines.append(f"{status['verdict']} ({status.get('reason', '')}): {one_line(status.get('message'))}")
    return lines


def gist_of(message: str) -> list[str]:
    """What of a failure's message says what was wrong: pytest marks such lines; else all of it."""
    lines = [line.rstrip() for line in message.expandtabs(4).splitlines() if line.strip()]
    return formatting.marked(message) or lines


def one_line(text: Any) -> str:
    return limits.cut(" ".join(str(text or "").split()), LINE_BYTES)


def counted(counts: Counts) -> str:
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in OUTCOMES if counts[outcome]]
    marks = [f"{number} {mark}" for number, mark in _marks(counts) if number]
    return f"{counts.total}: {', '.join(parts)}" + (f" ({', '.join(marks)})" if marks else "")


def _marks(counts: Counts) -> tuple[tuple[int, str], ...]:
    return (counts.flaky, "flaky"), (counts.quarantined, "in quarantine")


def _failure(entry: Mapping[str, Any]) -> str:
    """A case as status.failures has it."""
    how = next((mark for mark in ("flaky", "quarantined") if entry.get(mark)), entry.get("outcome", ""))
    ranks = ", ".join(str(rank) for rank in entry.get("ranks") or ())
    nodes = ", ".join(str(node) for node in entry.get("nodes") or ())
    where = (f" rank {ranks}" if ranks else "") + (f" on {nodes}" if nodes else "")
    message = " ".join(gist_of(str(entry.get("message") or "")))
    return one_line(f"{how}: {entry.get('suite', '')}: {entry.get('case', '')}{where}: {message}")
