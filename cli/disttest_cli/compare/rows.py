"""A comparison as table rows, shared by text and Markdown. Names and messages are sanitized and shortened."""

from collections.abc import Iterable, Mapping

from disttest_cli.compare import model
from disttest_cli.compare.differences import show_time
from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting
from disttest_contract.text.formatting import show_bytes, show_speeds

Row = tuple[str, ...]

NAME_BYTES = 200
MESSAGE_BYTES = 300
WARNING_BYTES = 600
NODES = 4  # named for a case
SIDES = ("", "RUN", "BEGAN", "VERDICT", "REASON", "CASES", "PASSED", "FAILED", "FLAKY", "NOT RUN", "WORLD")
DIFFERENCES = ("WHAT", "A", "B")
CHANGES = ("SUITE", "CASE", "A", "B", "WHERE")
DURATIONS = ("SUITE", "CASE", "A", "EXPECTED", "B", "RATIO")
DRIFTS = ("SUITE", "CASES", "A", "B", "MEDIAN RATIO")
SPEEDS = ("BANDWIDTH", "TYPE", "SIZE", "A", "B", "CHANGE", "NOISE", "USUAL", "THRESHOLD")

# Titles in the order of display, and how many cases are listed; of the others only the number is shown.
SECTIONS: Mapping[model.ChangeKind, tuple[str, int]] = {
    model.ChangeKind.NEWLY_FAILING: ("newly failing", 20),
    model.ChangeKind.NO_LONGER_RUN: ("no longer run", 10),
    model.ChangeKind.STILL_FAILING: ("still failing", 0),
    model.ChangeKind.NEWLY_PASSING: ("newly passing", 20),
    model.ChangeKind.NEWLY_FLAKY: ("newly flaky", 10),
    model.ChangeKind.NO_LONGER_FLAKY: ("no longer flaky", 10),
    model.ChangeKind.IN_QUARANTINE: ("failing in quarantine", 5),
    model.ChangeKind.NEWLY_SKIPPED: ("newly skipped", 5),
    model.ChangeKind.NOW_RUN: ("run again, and good", 5),
    model.ChangeKind.ONLY_IN_A: ("only in A", 5),
    model.ChangeKind.ONLY_IN_B: ("only in B", 5),
}
MOST_DURATIONS = 20
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


def difference(one: model.Difference) -> Row:
    return short(one.what), short(one.before), short(one.after)


def change(one: model.CaseChange) -> Row:
    return short(one.suite), short(one.case), one.before, one.after, where(one)


def where(one: model.CaseChange) -> str:
    """`rank 3 on node-a`; empty if no rank or node is at fault."""
    who = formatting.show_ranks(one.ranks)
    names = formatting.listed([short(node) for node in one.nodes], NODES)
    parts = (f"rank{'' if who.isdecimal() else 's'} {short(who)}" if who else "", names)
    return " on ".join(part for part in parts if part)


def warning(text: str) -> str:
    return escaping.short_line(text, WARNING_BYTES)


def message(one: model.CaseChange) -> str:
    return escaping.short_line(formatting.short_message(one.message[: limits.MESSAGE_BYTES]), MESSAGE_BYTES)


def drift(one: model.Drift) -> Row:
    return (
        short(one.suite),
        str(one.cases),
        _seconds(one.before_seconds),
        _seconds(one.after_seconds),
        _ratio(one.ratio),
    )


def notable_drifts(comparison: model.Comparison) -> list[model.Drift]:
    return [one for one in comparison.durations.drifts if one.trend is not model.Trend.SAME]


def duration(one: model.DurationChange) -> Row:
    numbers = one.before_seconds, one.expected_seconds, one.after_seconds
    return short(one.suite), short(one.case), *map(_seconds, numbers), _ratio(one.ratio)


def notable_speeds(comparison: model.Comparison) -> list[model.Speed]:
    """Changed ones and those below their threshold, lower ones first."""
    order = {model.Trend.WORSE: 0, model.Trend.SAME: 1, model.Trend.BETTER: 2}
    found = [one for one in comparison.speeds if one.trend is not model.Trend.SAME or one.is_below]
    return sorted(found, key=lambda one: (order[one.trend], one.change))


def speed(one: model.Speed) -> Row:
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


def noise(comparison: model.Comparison) -> str:
    durations = comparison.durations
    known = f" and {comparison.earlier} earlier reports" if comparison.earlier else ""
    return (
        f"{durations.compared} cases were good in both; what takes up to {durations.least_ratio:.2f}x as long as "
        f"expected may be noise, by the spread of these cases{known}"
    )


def without_empty(head: Row, rows: Iterable[Row]) -> list[Row]:
    rows = list(rows)
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return [tuple(row[place] for place in kept) for row in (head, *rows)]


def short(text: str) -> str:
    return escaping.short_line(text, NAME_BYTES)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}x"
