"""A comparison as titled tables, shared by text and Markdown. Names and messages are sanitized and shortened."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from disttest_cli.compare import model
from disttest_cli.compare.model import ChangeKind
from disttest_cli.formats import values
from disttest_cli.views import terminal
from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting
from disttest_contract.text.formatting import show_bytes, show_speeds

Row = tuple[str, ...]

NAME_BYTES = 200
MESSAGE_BYTES = 300
WARNING_BYTES = 600
SIDES = ("", "RUN", "STARTED", "VERDICT", "REASON", "CASES", "PASSED", "FAILED", "FLAKY", "NOT RUN", "RANKS")
DIFFERENCES = ("WHAT", "A", "B")
CHANGES = ("SUITE", "CASE", "A", "B", "WHERE")
DURATIONS = ("SUITE", "CASE", "A", "EXPECTED", "B", "RATIO")
DRIFTS = ("SUITE", "CASES", "A", "B", "MEDIAN RATIO")
SPEEDS = ("BANDWIDTH", "TYPE", "SIZE", "A", "B", "CHANGE", "NOISE", "USUAL", "THRESHOLD")

# Titles in the order of display, number of listed cases (others are only counted), and styles.
CASE_SECTIONS: Mapping[ChangeKind, tuple[str, int, str]] = {
    ChangeKind.NEWLY_FAILING: ("newly failing", 20, terminal.BROKEN),
    ChangeKind.NO_LONGER_RUN: ("no longer run", 10, terminal.WARNING),
    ChangeKind.STILL_FAILING: ("still failing", 0, ""),
    ChangeKind.NEWLY_PASSING: ("newly passing", 20, terminal.GOOD),
    ChangeKind.NEWLY_FLAKY: ("newly flaky", 10, terminal.WARNING),
    ChangeKind.NO_LONGER_FLAKY: ("no longer flaky", 10, terminal.GOOD),
    ChangeKind.IN_QUARANTINE: ("failing in quarantine", 5, ""),
    ChangeKind.NEWLY_SKIPPED: ("newly skipped", 5, ""),
    ChangeKind.NOW_RUN: ("passing again", 5, ""),
    ChangeKind.ONLY_IN_A: ("only in A", 5, ""),
    ChangeKind.ONLY_IN_B: ("only in B", 5, ""),
}
MOST_DURATIONS = 20
MOST_SPEEDS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A title, and a table if there are `rows`; `messages` are those of the rows, `more` rows are not shown."""

    title: str
    head: Row = ()
    rows: Sequence[Row] = ()
    messages: Sequence[str] = ()
    numbers: frozenset[int] = frozenset()  # columns
    style: str = ""
    more: int = 0


def sides(comparison: model.Comparison) -> Section:
    rows = [side("A", comparison.a), side("B", comparison.b)]
    return Section(title="", head=SIDES, rows=rows, numbers=frozenset(range(5, 10)))


def environment(comparison: model.Comparison) -> list[Section]:
    rows = [difference(one) for one in comparison.environment]
    return [Section(title="environment", head=DIFFERENCES, rows=rows)] if rows else []


def cases(comparison: model.Comparison) -> Iterator[Section]:
    for kind, (title, most, style) in CASE_SECTIONS.items():
        if changes := comparison.changes[kind]:
            shown = changes[:most]
            yield Section(
                title=f"{title}: {len(changes)}",
                head=CHANGES,
                rows=[change(one) for one in shown],
                messages=[message(one) for one in shown],
                style=style,
                more=len(changes) - len(shown),
            )
    if comparison.unknown:
        yield Section(title=f"in one report only, maybe trimmed from the other: {comparison.unknown}")


def durations(comparison: model.Comparison) -> Iterator[Section]:
    found = comparison.durations
    if not found.compared:
        return
    yield Section(title=f"durations: {noise(comparison)}")
    if drifts := [drift(one) for one in found.drifts if one.trend is not model.Trend.SAME]:
        yield Section(title="suites as a whole", head=DRIFTS, rows=drifts, numbers=frozenset(range(1, 5)))
    for title, changes, style in (
        ("slower", found.slower, terminal.BROKEN),
        ("faster", found.faster, terminal.GOOD),
    ):
        if changes:
            yield Section(
                title=f"{title}: {len(changes)}",
                head=DURATIONS,
                rows=[duration(one) for one in changes[:MOST_DURATIONS]],
                numbers=frozenset(range(2, 6)),
                style=style,
                more=len(changes) - MOST_DURATIONS,
            )


def speeds(comparison: model.Comparison) -> list[Section]:
    if not comparison.speeds:
        return []
    found = notable_speeds(comparison)
    return [
        Section(
            title=f"bandwidths: {len(comparison.speeds)} compared, {len(found)} beyond noise or below a threshold",
            head=SPEEDS,
            rows=[speed(one) for one in found[:MOST_SPEEDS]],
            numbers=frozenset(range(2, 7)),
            more=len(found) - MOST_SPEEDS,
        )
    ]


def side(name: str, report: Report) -> Row:
    counts, started = report.counts, values.moment(report.started)  # forged times are unknown
    numbers = counts.total, counts[Outcome.PASSED], counts.red, counts.flaky
    return (
        name,
        short(f"{report.namespace}/{report.name}"),
        f"{started:%Y-%m-%d %H:%M}" if started else "at an unknown time",
        report.verdict.value,
        report.reason.value,
        *map(str, numbers),
        str(counts[Outcome.NOT_RUN]),
        short(f"{report.nodes} x {report.ranks_per_node}, {report.backend}"),
    )


def difference(one: model.Difference) -> Row:
    return short(one.what), short(one.before), short(one.after)


def change(one: model.CaseChange) -> Row:
    return short(one.suite), short(one.case), one.before, one.after, values.where(one.ranks, one.nodes)


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
    known = f" and {formatting.counted(comparison.earlier, 'earlier report')}" if comparison.earlier else ""
    return (
        f"{formatting.counted(durations.compared, 'case')} passed in both; smallest detectable slowdown "
        f"{durations.least_ratio:.2f}x, estimated from the spread of these cases{known}"
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
