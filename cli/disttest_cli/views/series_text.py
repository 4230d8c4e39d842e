"""The text of `history`: runs of a series, failing and flipping cases, and suspect nodes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from disttest_cli import fields
from disttest_cli.kube.client import Body
from disttest_cli.kube.series import NightRun, SeriesHistory
from disttest_cli.views import terminal
from disttest_cli.views.terminal import Line, line
from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.text import escaping, formatting
from disttest_contract.text.formatting import show_bytes, show_speed

NIGHTS = ("TIME", "RUN", "VERDICT", "REASON", "NODES", "PASSED", "FAILED", "FLAKY", "DURATION", "REPORT")
WIDE = ("CASES", "NOT RUN", "QUARANTINED", "QUEUED", "RAN", "SUITES THAT DID NOT PASS")
NIGHT_NUMBERS = frozenset({4, 5, 6, 7, 8, 10, 11, 12, 13, 14})
FAILING = ("FAILING", "SUITE", "STREAK", "SINCE", "LAST", "OUTCOMES")
FLIPPING = ("FLIPPING", "SUITE", "FLIPS", "LAST FLIP", "OUTCOMES")
NODES = ("SUSPECT NODE", "REASON", "COUNT", "CONFIRMED", "LAST", "LAST RUN", "CLEARED")
SERIES = ("NAME", "RUNS", "LAST", "VERDICT", "LAST SUCCESS", "PASS RATE", "STREAK", "FLAKY")
NAMESPACE = "NAMESPACE"

# Letters of verdicts.
LETTERS = {
    Verdict.PASSED.value: "P",
    Verdict.TESTS_FAILED.value: "F",
    Verdict.HUNG.value: "H",
    Verdict.TIMED_OUT.value: "T",
    Verdict.ERRORED.value: "E",
    Verdict.INFRA_FAILED.value: "i",
    Verdict.CANCELLED.value: "c",
}
STYLES = {
    "P": terminal.GOOD,
    **dict.fromkeys("FHTE", terminal.BROKEN),
    "f": terminal.WARNING,
    **dict.fromkeys("ic.", terminal.QUIET),
}
LEGEND = (
    "OUTCOMES, newest last: P passed, F failed, f failed and passed in a rerun, . did not run. "
    "FLIPPING: alternates between passing and failing."
)
NAME_BYTES = 160
MESSAGE_BYTES = 256
LETTERS_SHOWN = 30
MOST_SPEEDS = 8


def night_table(nights: Sequence[NightRun], *, wide: bool) -> list[Line]:
    head = (*NIGHTS, *(WIDE if wide else ()))
    return terminal.table([head, *(_night(night, wide=wide) for night in nights)], numbers=NIGHT_NUMBERS)


def page(series: SeriesHistory, *, limit: int, wide: bool) -> list[Line]:
    status = series.status
    parts = [
        night_table(series.nights[:limit], wide=wide)
        if series.nights
        else [line("No run of the series has finished.")],
        _trend(series),
        _cases(status, "failing", FAILING, _failing, limit=limit),
        _cases(status, "flipping", FLIPPING, _flipping, limit=limit),
        [line((LEGEND, terminal.QUIET))] if status.get("failing") or status.get("flipping") else [],
        _nodes(status, limit=limit),
        _speeds(status) if wide else [],
    ]
    return terminal.paragraphs(parts)


def series_table(bodies: Sequence[Body], *, now: datetime, namespaces: bool) -> list[Line]:
    head = (*((NAMESPACE,) if namespaces else ()), *SERIES)
    return terminal.table([head, *(_series(body, now=now, namespaces=namespaces) for body in bodies)])


def _night(night: NightRun, *, wide: bool) -> list[str | Line]:
    counts = night.counts
    has_cases = counts.total > 0
    row: list[str | Line] = [
        _time(night.time),
        _short(night.name),
        terminal.styled(night.verdict),
        _short(night.reason),
        str(night.nodes),
        str(counts[Outcome.PASSED]) if has_cases else "",
        line((str(counts.red), terminal.BROKEN if counts.red else "")) if has_cases else "",
        line((str(counts.flaky), terminal.WARNING if counts.flaky else "")) if has_cases else "",
        formatting.show_duration(night.seconds),
        "retained" if night.report else "",
    ]
    return row + (_wide(night) if wide else [])


def _wide(night: NightRun) -> list[str | Line]:
    counts = night.counts
    bad = [f"{name} ({verdict})" for name, verdict in night.suites if verdict != Verdict.PASSED]
    return [
        str(counts.total) if counts.total else "",
        str(counts[Outcome.NOT_RUN]) if counts.total else "",
        str(counts.quarantined) if counts.total else "",
        formatting.show_duration(night.steps.get("queued")),
        formatting.show_duration(night.steps.get("ran")),
        _short(", ".join(bad)),
    ]


def _trend(series: SeriesHistory) -> list[Line]:
    status = series.status
    if not series.nights:
        return []
    rate, streak = fields.number(status.get("passRatePercent")), fields.count(status.get("streak"))
    parts = [formatting.counted(fields.count(status.get("runCount")), "run")]
    if rate is not None:
        parts.append(f"{rate:.0f} % of the last {len(series.nights)} passed, without InfraFailed and Cancelled")
    if streak:
        parts.append(f"the last {abs(streak)} {'passed' if streak > 0 else 'did not pass'}")
    if success := fields.text(status.get("lastSuccessTime")):
        parts.append(f"last success {_time(success)}")
    letters = "".join(LETTERS.get(night.verdict, "?") for night in reversed(series.nights))
    used = [f"{letter} {verdict}" for verdict, letter in LETTERS.items() if letter in letters]
    return [line("; ".join(parts)), line("verdicts, newest last: ", _strip(letters), f"  ({', '.join(used)})")]


def _cases(status: Mapping[str, Any], name: str, head: Sequence[str], row: Any, *, limit: int) -> list[Line]:
    found = fields.rows(status.get(name))
    if not found:
        return []
    shown = found[:limit]
    # Aligned right, so that letters of the same run are in one column.
    title, *table = terminal.table([head, *map(row, shown)], numbers=frozenset({2, len(head) - 1}))
    lines = [title]
    for one, cells in zip(shown, table, strict=True):
        lines.append(cells)
        if message := fields.text(one.get("message")):
            lines.append(line("    ", (_short(message, MESSAGE_BYTES), terminal.QUIET)))
    return [*lines, *_more(len(found) - len(shown) + fields.count(status.get(f"{name}Omitted")))]


def _more(missing: int) -> list[Line]:
    return [line(f"at least {missing} more")] if missing else []


def _failing(one: Mapping[str, Any]) -> list[str | Line]:
    streak = f"{'at least ' if one.get('truncated') else ''}{fields.count(one.get('streak'))}"
    last = terminal.styled(fields.text(one.get("lastOutcome")))
    return [*_case(one), streak, _time(fields.text(one.get("since"))), last, _outcomes(one)]


def _flipping(one: Mapping[str, Any]) -> list[str | Line]:
    return [
        *_case(one),
        str(fields.count(one.get("flips"))),
        _time(fields.text(one.get("lastFlipTime"))),
        _outcomes(one),
    ]


def _case(one: Mapping[str, Any]) -> tuple[str, str]:
    return _short(fields.text(one.get("case"))), _short(fields.text(one.get("suite")))


def _outcomes(one: Mapping[str, Any]) -> Line:
    return _strip(fields.text(one.get("outcomes"))[-LETTERS_SHOWN:])


def _strip(letters: str) -> Line:
    return line(*((letter, STYLES.get(letter, "")) for letter in letters))


def _nodes(status: Mapping[str, Any], *, limit: int) -> list[Line]:
    found = fields.rows(status.get("suspectNodes"))
    if not found:
        return []
    missing = max(0, len(found) - limit) + fields.count(status.get("suspectNodesOmitted"))
    return [*terminal.table([NODES, *map(_node, found[:limit])], numbers=frozenset({2})), *_more(missing)]


def _node(one: Mapping[str, Any]) -> list[str | Line]:
    return [
        _short(fields.text(one.get("name"))),
        _short(fields.text(one.get("reason"))),
        str(fields.count(one.get("count"))),
        line(("yes", terminal.BROKEN)) if one.get("confirmed") is True else "no",
        _time(fields.text(one.get("lastTime"))),
        _short(fields.text(one.get("lastRun"))),
        _time(fields.text(one.get("clearedTime"))),
    ]


def _speeds(status: Mapping[str, Any]) -> list[Line]:
    """The largest size of each collective and type, of the last run with measurements."""
    measured = fields.mapping(status.get("bandwidth"))
    largest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for point in fields.rows(measured.get("points")):
        key = fields.text(point.get("collective")), fields.text(point.get("dtype"))
        if fields.count(point.get("sizeBytes")) >= fields.count(largest.get(key, {}).get("sizeBytes")):
            largest[key] = point
    shown = list(largest.values())[:MOST_SPEEDS]
    return [line(f"bandwidth of {fields.text(measured.get('run'))}: {', '.join(map(_speed, shown))}")] if shown else []


def _speed(point: Mapping[str, Any]) -> str:
    what = _short(f"{fields.text(point.get('collective'))} {fields.text(point.get('dtype'))}")
    wanted = fields.number(point.get("thresholdBytesPerSecond"))
    threshold = f" (threshold {_short(show_speed(wanted))})" if wanted else ""
    return (
        f"{what} {show_bytes(fields.count(point.get('sizeBytes')))} "
        f"{_short(show_speed(fields.number(point.get('busBandwidthBytesPerSecond')) or 0.0))}{threshold}"
    )


def _series(body: Body, *, now: datetime, namespaces: bool) -> list[str | Line]:
    status = fields.status(body)
    rate = fields.number(status.get("passRatePercent"))
    row: list[str | Line] = [fields.namespace(body)] if namespaces else []
    return [
        *row,
        fields.name(body),
        str(fields.count(status.get("runCount"))),
        formatting.show_age(fields.moment(status.get("lastCompletionTime")), now),
        terminal.styled(fields.text(status.get("lastVerdict"))),
        formatting.show_age(fields.moment(status.get("lastSuccessTime")), now),
        f"{rate:.0f} %" if rate is not None else "",
        str(fields.count(status.get("streak"))),
        str(fields.count(status.get("flakyCases"))),
    ]


def _time(text: str) -> str:
    moment = fields.moment(text)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""


def _short(text: str, limit_bytes: int = NAME_BYTES) -> str:
    return escaping.short_line(text, limit_bytes)
