"""A comparison as Markdown for pull requests on GitHub and GitLab; all foreign text is in code spans."""

from collections.abc import Iterable, Iterator

from disttest_cli.compare import rows
from disttest_cli.compare.model import Comparison
from disttest_cli.compare.rows import Row
from disttest_cli.formats import gfm

WARNING_BYTES = 1000


def page(comparison: Comparison) -> str:
    parts = [
        [f"### Worse: {', '.join(comparison.worse)}" if comparison.worse else "### Nothing got worse"],
        _table(rows.SIDES, [rows.side("A", comparison.a), rows.side("B", comparison.b)]),
        [f"> {gfm.code(rows.warning(one), WARNING_BYTES)}  " for one in comparison.warnings],
        _titled("Made with", rows.DIFFERENCES, map(rows.difference, comparison.environment)),
        *_changes(comparison),
        *_durations(comparison),
        _speeds(comparison),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _changes(comparison: Comparison) -> Iterator[list[str]]:
    counted = []
    for kind, (title, most) in rows.SECTIONS.items():
        changes = comparison.changes[kind]
        if changes and most:
            head = (*rows.CHANGES, "MESSAGE")
            content = [(*rows.change(one), rows.message(one)) for one in changes[:most]]
            yield [*_titled(f"{_upper(title)}: {len(changes)}", head, content), *_more(len(changes) - most)]
        elif changes:
            counted.append(f"{_upper(title)}: {len(changes)}.")
    if comparison.unknown:
        counted.append(f"In one report only, and perhaps cut from the other: {comparison.unknown}.")
    yield [" ".join(counted)] if counted else []


def _durations(comparison: Comparison) -> Iterator[list[str]]:
    durations = comparison.durations
    if not durations.compared:
        return
    yield [f"Durations: {rows.noise(comparison)}."]
    yield _titled("Suites as a whole", rows.DRIFTS, map(rows.drift, rows.notable_drifts(comparison)))
    for title, found in (("Slower", durations.slower), ("Faster", durations.faster)):
        shown = map(rows.duration, found[: rows.MOST_DURATIONS])
        yield [*_titled(f"{title}: {len(found)}", rows.DURATIONS, shown), *_more(len(found) - rows.MOST_DURATIONS)]


def _speeds(comparison: Comparison) -> list[str]:
    found = rows.notable_speeds(comparison)
    if not comparison.speeds:
        return []
    title = f"Bandwidths: {len(comparison.speeds)} compared, {len(found)} beyond noise or below a threshold"
    table = _titled(title, rows.SPEEDS, map(rows.speed, found[: rows.MOST_SPEEDS]))
    return [*(table or [f"{title}."]), *_more(len(found) - rows.MOST_SPEEDS)]


def _titled(title: str, head: Row, content: Iterable[Row]) -> list[str]:
    table = _table(head, content)
    return [f"#### {title}", "", *table] if table else []


def _table(head: Row, content: Iterable[Row]) -> list[str]:
    names, *lines = rows.without_empty(head, content)
    if not lines:
        return []
    titles = [name.capitalize() if len(name) > 1 else name for name in names]
    return gfm.table(titles, [[gfm.cell(cell) for cell in line] for line in lines]).splitlines()


def _upper(title: str) -> str:
    return title[:1].upper() + title[1:]


def _more(count: int) -> list[str]:
    return ["", f"and {count} more: `-o json` has them all"] if count > 0 else []
