"""A comparison as rows of words, which text and Markdown share. Names and messages are harmless and short here."""

from collections.abc import Iterable, Mapping

from disttest_cli.compare.differences import show_time
from disttest_cli.compare.model import (
    CaseChange,
    ChangeKind,
    Comparison,
    Difference,
    Drift,
    DurationChange,
    Speed,
    Trend,
)
from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting
from disttest_contract.text.formatting import show_bytes, show_speeds

Row = tuple[str, ...]

NAME_BYTES = 200
MESSAGE_BYTES = 300
WARNING_BYTES = 600
NODES = 4  # to blame for a case
SIDES = ("", "RUN", "BEGAN", "VERDICT", "REASON", "CASES", "PASSED", "FAILED", "FLAKY", "NOT RUN", "WORLD")
DIFFERENCES = ("WHAT", "A", "B")
CHANGES = ("SUITE", "CASE", "A", "B", "WHERE")
PACES = ("SUITE", "CASE", "A", "EXPECTED", "B", "RATIO")
DRIFTS = ("SUITE", "CASES", "A", "B", "MEDIAN RATIO")
SPEEDS = ("BANDWIDTH", "TYPE", "SIZE", "A", "B", "CHANGE", "NOISE", "USUAL", "THRESHOLD")

# In the order in which they are told, and of how many cases each names; of the others it says how many they are.
TOLD: Mapping[ChangeKind, tuple[str, int]] = {
    ChangeKind.NEWLY_FAILING: ("newly failing", 20),
    ChangeKind.NO_LONGER_RUN: ("no longer run", 10),
    ChangeKind.STILL_FAILING: ("still failing", 0),
    ChangeKind.NEWLY_PASSING: ("newly passing", 20),
    ChangeKind.NEWLY_FLAKY: ("newly flaky", 10),
    ChangeKind.NO_LONGER_FLAKY: ("no longer flaky", 10),
    ChangeKind.IN_QUARANTINE: ("failing in quarantine", 5),
    ChangeKind.NEWLY_SKIPPED: ("newly skipped", 5),
    ChangeKind.NOW_RUN: ("run again, and good", 5),
    ChangeKind.ONLY_IN_A: ("only in A", 5),
    ChangeKind.ONLY_IN_B: ("only in B", 5),
}
MOST_PACES = 20
MOST_SPEEDS = 40


def side(name: str, report: Report) -> Row:
    counts = report.counts
    numbers = counts.total, counts[Outcome.PASSED], counts.bad - counts.quarantined, counts.flaky
    return (
        name,
        short(f"{report.namespace}/{report.name}"),
        show_time(report.started),
        report.verdict.value,
        report.reason.value,
        *map(str, numbers),
        str(counts[Outcome.NOT_RUN]),
        short(f"{report.nodes} x {report.ranks_per_node}, {report.backend}"),
    )


def difference(one: Difference) -> Row:
    return short(one.what), short(one.before), short(one.after)


def change(one: CaseChange) -> Row:
    return short(one.suite), short(one.case), one.before, one.after, where(one)


def where(one: CaseChange) -> str:
    """As in: rank 3 on node-a; empty where nobody is to blame."""
    who = formatting.show_ranks(one.ranks)
    more = f" and {len(one.nodes) - NODES} more" if len(one.nodes) > NODES else ""
    names = ", ".join(short(node) for node in one.nodes[:NODES])
    parts = (f"rank{'' if who.isdecimal() else 's'} {short(who)}" if who else "", f"{names}{more}")
    return " on ".join(part for part in parts if part)


def warning(text: str) -> str:
    return limits.cut(escaping.line(text[: 4 * WARNING_BYTES]), WARNING_BYTES)


def message(one: CaseChange) -> str:
    said = formatting.short(one.message[: limits.MESSAGE_BYTES])[: 4 * MESSAGE_BYTES]
    return limits.cut(escaping.line(said), MESSAGE_BYTES)


def drift(one: Drift) -> Row:
    return (
        short(one.suite),
        str(one.cases),
        _seconds(one.before_seconds),
        _seconds(one.after_seconds),
        _ratio(one.ratio),
    )


def notable_drifts(comparison: Comparison) -> list[Drift]:
    return [one for one in comparison.paces.drifts if one.trend is not Trend.SAME]


def pace(one: DurationChange) -> Row:
    numbers = one.before_seconds, one.expected_seconds, one.after_seconds
    return short(one.suite), short(one.case), *map(_seconds, numbers), _ratio(one.ratio)


def notable_speeds(comparison: Comparison) -> list[Speed]:
    """Those that changed, what got lower first, and those below their threshold."""
    order = {Trend.WORSE: 0, Trend.SAME: 1, Trend.BETTER: 2}
    found = [one for one in comparison.speeds if one.trend is not Trend.SAME or one.is_below]
    return sorted(found, key=lambda one: (order[one.trend], one.change))


def speed(one: Speed) -> Row:
    before, after = show_speeds(one.before, one.after)
    usual = show_speeds(one.usual, one.after)[0] if one.usual is not None else ""
    threshold = show_speeds(one.threshold, one.after)[0] if one.threshold is not None else ""
    missed = "missed: " if one.is_below else ""
    return (
        short(one.collective),
        short(one.dtype),
        show_bytes(one.size_bytes),
        *map(short, (before, after, f"{one.change:+.1%}", f"±{one.band:.0%}", usual, f"{missed}{threshold}")),
    )


def noise(comparison: Comparison) -> str:
    """What the durations were held against, in one sentence."""
    paces = comparison.paces
    known = f" and {comparison.earlier} earlier reports" if comparison.earlier else ""
    return (
        f"{paces.compared} cases were good in both; what takes up to {paces.least_ratio:.2f}x as long as expected may "
        f"be noise, by the spread of these cases{known}"
    )


def without_empty(head: Row, rows: Iterable[Row]) -> list[Row]:
    """Only columns that say something."""
    rows = list(rows)
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return [tuple(row[place] for place in kept) for row in (head, *rows)]


def short(text: str) -> str:
    return limits.cut(escaping.line(text[: 4 * NAME_BYTES]), NAME_BYTES)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}x"
