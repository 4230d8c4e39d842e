"""The comparison of two reports: what is told of them, and what would mislead."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from disttest_cli.comparing import cases, environment, paces, speeds
from disttest_cli.comparing.model import Comparison, Paces, Side
from disttest_contract.report import Report

FIRST_YEAR, LAST_YEAR = 1, 253402300799  # seconds that a date can have


def compare(a: Report, b: Report, earlier: Sequence[Report] = ()) -> Comparison:
    """A came first. `earlier` are further reports of the series from which it is known how much its numbers vary."""
    before, after = cases.side(a), cases.side(b)
    changes, unknown = cases.changes(before, after)
    is_alike = _world(a) == _world(b)
    known = [report for report in earlier if _world(report) == _world(b) and report.uid not in (a.uid, b.uid)]
    return Comparison(
        a=a,
        b=b,
        changes=changes,
        common=len(before.cases.keys() & after.cases.keys()),
        unknown=unknown,
        warnings=tuple(_warnings(before, after)),
        environment=environment.differences(a, b),
        paces=paces.compare(a, b, known) if is_alike else Paces(),
        speeds=speeds.compare(a, b, known) if is_alike else (),
        earlier=len(known),
    )


def _world(report: Report) -> tuple[str, int, int]:
    return report.backend, report.nodes, report.ranks_per_node


def _warnings(before: Side, after: Side) -> Iterator[str]:
    a, b = before.report, after.report
    if (a.uid, a.attempt, a.started) == (b.uid, b.attempt, b.started):
        yield "A and B are the same report."
    elif a.started > b.started:
        yield "A began after B: what is called new here is what was before."
    if _world(a) != _world(b):
        yield f"A ran on {_shown(a)}, B on {_shown(b)}: neither durations nor bandwidths are compared."
    for name, side in (("A", before), ("B", after)):
        report = side.report
        if side.is_cut:
            yield f"Of the report {name} something was left out ({report.trimmed}): what it lacks may have been there."
        if side.is_broken_off:
            yield f"{name} was {report.verdict} ({report.reason}): of cases that it did not reach it says nothing."
        if not side.cases:
            yield f"The report {name} has no cases."
    lost = speeds.gone(a, b) if _world(a) == _world(b) and not after.is_cut else 0
    if lost:
        yield f"B lacks {lost} of the bandwidths that A measured."


def _shown(report: Report) -> str:
    return f"{report.nodes} nodes x {report.ranks_per_node} ranks over {report.backend}"


def show_time(seconds: float) -> str:
    """By the leader's clock; a report may claim anything."""
    if not FIRST_YEAR <= seconds <= LAST_YEAR:
        return "at an unknown time"
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")
