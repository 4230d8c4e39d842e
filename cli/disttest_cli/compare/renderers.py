"""A comparison as lines for a terminal, and as a JSON document for programs."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from disttest_cli.compare import rows
from disttest_cli.compare.model import CaseChange, ChangeKind, Comparison
from disttest_cli.compare.rows import Row
from disttest_cli.views import terminal
from disttest_cli.views.terminal import Line, line
from disttest_contract.results.report import Report

STYLES = {
    ChangeKind.NEWLY_FAILING: terminal.BROKEN,
    ChangeKind.NO_LONGER_RUN: terminal.WARNING,
    ChangeKind.NEWLY_FLAKY: terminal.WARNING,
    ChangeKind.NEWLY_PASSING: terminal.GOOD,
    ChangeKind.NO_LONGER_FLAKY: terminal.GOOD,
}
SIDE_NUMBERS = frozenset({5, 6, 7, 8, 9})


def lines(comparison: Comparison) -> list[Line]:
    parts = [
        _table(rows.SIDES, [rows.side("A", comparison.a), rows.side("B", comparison.b)], numbers=SIDE_NUMBERS),
        [line((f"! {rows.warning(one)}", terminal.WARNING)) for one in comparison.warnings],
        _titled("made with", rows.DIFFERENCES, map(rows.difference, comparison.environment)),
        *_changes(comparison),
        *_durations(comparison),
        _speeds(comparison),
        [_ending(comparison)],
    ]
    return terminal.paragraphs(parts)


def _changes(comparison: Comparison) -> Iterator[list[Line]]:
    for kind, (title, most) in rows.SECTIONS.items():
        changes = comparison.changes[kind]
        if changes:
            yield [line((f"{title}: {len(changes)}", STYLES.get(kind, ""))), *_listed(changes, most)]
    if comparison.unknown:
        yield [line(f"in one report only, and perhaps cut from the other: {comparison.unknown}")]


def _listed(changes: Sequence[CaseChange], most: int) -> list[Line]:
    shown = changes[:most]
    if not shown:
        return []
    head, *table = _table(rows.CHANGES, map(rows.change, shown))
    found = [_indented(head)]
    for one, row in zip(shown, table, strict=True):
        found.append(_indented(row))
        if message := rows.message(one):
            found.append(_indented(line((message, terminal.QUIET)), by=6))
    return [*found, *_more(len(changes) - most)]


def _durations(comparison: Comparison) -> Iterator[list[Line]]:
    durations = comparison.durations
    if not durations.compared:
        return
    yield [line(f"durations: {rows.noise(comparison)}")]
    yield _titled(
        "suites as a whole", rows.DRIFTS, map(rows.drift, rows.notable_drifts(comparison)), numbers={1, 2, 3, 4}
    )
    for title, found, style in (
        ("slower", durations.slower, terminal.BROKEN),
        ("faster", durations.faster, terminal.GOOD),
    ):
        if found:
            shown = map(rows.duration, found[: rows.MOST_DURATIONS])
            table = _titled(f"{title}: {len(found)}", rows.DURATIONS, shown, numbers={2, 3, 4, 5}, style=style)
            yield [*table, *_more(len(found) - rows.MOST_DURATIONS)]


def _speeds(comparison: Comparison) -> list[Line]:
    if not comparison.speeds:
        return []
    found = rows.notable_speeds(comparison)
    title = f"bandwidths: {len(comparison.speeds)} compared, {len(found)} beyond noise or below a threshold"
    table = _titled(title, rows.SPEEDS, map(rows.speed, found[: rows.MOST_SPEEDS]), numbers={2, 3, 4, 5, 6})
    return [*(table or [line(title)]), *_more(len(found) - rows.MOST_SPEEDS)]


def _ending(comparison: Comparison) -> Line:
    if comparison.worse:
        return line((f"worse: {', '.join(comparison.worse)}", terminal.BROKEN))
    return line(("nothing got worse", terminal.GOOD))


def _titled(
    title: str, head: Row, content: Iterable[Row], *, numbers: Iterable[int] = (), style: str = ""
) -> list[Line]:
    table = _table(head, content, numbers=frozenset(numbers))
    return [line((title, style)), *map(_indented, table)] if table else []


def _table(head: Row, content: Iterable[Row], *, numbers: frozenset[int] = frozenset()) -> list[Line]:
    cells = rows.without_empty(head, content)
    if len(cells) < 2:
        return []
    kept = [head.index(name) for name in cells[0]]
    places = frozenset(place for place, name in enumerate(kept) if name in numbers)
    return terminal.table([cells[0], *([terminal.styled(cell) for cell in row] for row in cells[1:])], numbers=places)


def _indented(one: Line, by: int = 2) -> Line:
    return line(" " * by, one)


def _more(count: int) -> list[Line]:
    return [line(f"  and {count} more: -o json has them all")] if count > 0 else []


def json_document(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison, neither shortened nor sanitized."""
    durations = comparison.durations
    return {
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "worse": list(comparison.worse),
        "warnings": list(comparison.warnings),
        "environment": [_fields(one) for one in comparison.environment],
        "cases": {
            "common": comparison.common,
            "unknown": comparison.unknown,
            **{kind.value: [_fields(one) for one in changes] for kind, changes in comparison.changes.items()},
        },
        "durations": {
            "compared": durations.compared,
            "leastRatio": round(durations.least_ratio, 3),
            "earlierReports": comparison.earlier,
            "suites": [_fields(one) for one in durations.drifts],
            "slower": [_fields(one) | {"ratio": round(one.ratio, 3)} for one in durations.slower],
            "faster": [_fields(one) | {"ratio": round(one.ratio, 3)} for one in durations.faster],
        },
        "bandwidths": [
            _fields(one) | {"change": round(one.change, 4), "belowThreshold": one.is_below} for one in comparison.speeds
        ],
    }


def _side(report: Report) -> dict[str, Any]:
    return {
        "namespace": report.namespace,
        "name": report.name,
        "uid": report.uid,
        "attempt": report.attempt,
        "series": report.series,
        "started": report.started if math.isfinite(report.started) else None,
        "verdict": report.verdict.value,
        "reason": report.reason.value,
        "trimmed": report.trimmed,
        "counts": report.counts.to_json(),
    }


def _fields(one: Any) -> dict[str, Any]:
    """Fields with names in camelCase and numbers rounded to four digits."""
    found = dataclasses.asdict(one)
    return {_camel(key): round(value, 4) if isinstance(value, float) else value for key, value in found.items()}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
