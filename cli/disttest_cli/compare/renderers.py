"""A comparison as lines for a terminal, as Markdown, and as a JSON document for programs."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from disttest_cli.compare import rows
from disttest_cli.compare.model import Comparison
from disttest_cli.compare.rows import Row, Section
from disttest_cli.formats import gfm
from disttest_cli.views import terminal
from disttest_cli.views.terminal import Line, line
from disttest_contract.results.report import Report
from disttest_contract.text import json_values


def lines(comparison: Comparison) -> list[Line]:
    parts = [
        _table(rows.sides(comparison)),
        [line((f"! {rows.warning(one)}", terminal.WARNING)) for one in comparison.warnings],
        *map(_section, rows.environment(comparison)),
        *map(_section, rows.cases(comparison)),
        *map(_section, rows.durations(comparison)),
        *map(_section, rows.speeds(comparison)),
        [_ending(comparison)],
    ]
    return terminal.paragraphs(parts)


def _section(section: Section) -> list[Line]:
    title = line((section.title, section.style))
    if not section.rows:
        return [title]
    head, *table = [line("  ", row) for row in _table(section)]
    found = [title, head]
    for row, message in zip(table, section.messages or [""] * len(table), strict=True):
        found.append(row)
        if message:
            found.append(line("      ", (message, terminal.QUIET)))
    return [*found, *([line(f"  {section.more} more; to show all, use -o json")] if section.more > 0 else [])]


def _table(section: Section) -> list[Line]:
    head, *content = rows.without_empty(section.head, section.rows)
    kept = [section.head.index(name) in section.numbers for name in head]
    cells = [[terminal.styled(cell) for cell in row] for row in content]
    return terminal.table([head, *cells], numbers=frozenset(place for place, is_number in enumerate(kept) if is_number))


def _ending(comparison: Comparison) -> Line:
    if comparison.worse:
        return line((f"worse: {', '.join(comparison.worse)}", terminal.BROKEN))
    return line(("nothing got worse", terminal.GOOD))


def markdown(comparison: Comparison) -> str:
    """For pull requests on GitHub and GitLab; all foreign text is in code spans."""
    sides = rows.sides(comparison)
    parts = [
        [f"### Worse: {', '.join(comparison.worse)}" if comparison.worse else "### Nothing got worse"],
        _markdown_table(sides.head, sides.rows),
        [f"> {gfm.code(rows.warning(one), rows.WARNING_BYTES)}  " for one in comparison.warnings],
        *map(_markdown_section, rows.environment(comparison)),
        *_markdown_cases(comparison),
        *map(_markdown_section, rows.durations(comparison)),
        *map(_markdown_section, rows.speeds(comparison)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _markdown_cases(comparison: Comparison) -> list[list[str]]:
    """Sections without a table share the last paragraph."""
    sections = list(rows.cases(comparison))
    counted = [line for section in sections if not section.rows for line in _markdown_section(section)]
    return [
        *(_markdown_section(section) for section in sections if section.rows),
        [" ".join(counted)] if counted else [],
    ]


def _markdown_section(section: Section) -> list[str]:
    title = section.title[:1].upper() + section.title[1:]
    if not section.rows:
        return [f"{title}."]
    if section.messages:
        content = [(*row, words) for row, words in zip(section.rows, section.messages, strict=True)]
        table = _markdown_table((*section.head, "MESSAGE"), content)
    else:
        table = _markdown_table(section.head, section.rows)
    more = ["", f"{section.more} more; to show all, use `-o json`"] if section.more > 0 else []
    return [f"#### {title}", "", *table, *more]


def _markdown_table(head: Row, content: Sequence[Row]) -> list[str]:
    names, *lines = rows.without_empty(head, content)
    titles = [name.capitalize() if len(name) > 1 else name for name in names]
    return gfm.table(titles, [[gfm.cell(cell) for cell in line] for line in lines]).splitlines()


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
    return {
        json_values.camel_case(key): round(value, 4) if isinstance(value, float) else value
        for key, value in found.items()
    }
