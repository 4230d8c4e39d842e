"""The ledger of a series as the command line sees it, and the night that somebody means. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from disttest_cli.errors import UsageError
from disttest_cli.kube import fields
from disttest_contract.outcomes import Counts, Verdict
from disttest_contract.text import escaping

NEWEST, PASSED = "0", "passed"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
PLACE = re.compile(r"-?\d{1,3}")
POSITIONS = (
    "0 for the newest night with a report, -1 for the one before it, `passed` for the newest that passed, or a date"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """A finished run of the series. `report` is the ConfigMap that the series keeps; empty if it keeps none."""

    name: str
    uid: str = ""
    time: str = ""
    verdict: str = ""
    reason: str = ""
    nodes: int = 0
    seconds: float | None = None
    report: str = ""
    counts: Counts = field(default_factory=Counts)
    suites: tuple[tuple[str, str], ...] = ()  # name and verdict
    steps: Mapping[str, float] = field(default_factory=dict)

    @property
    def day(self) -> str:
        return self.time[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesHistory:
    """`nights` are the last ones, the newest first; `status` is all that the ledger says."""

    namespace: str
    name: str
    nights: tuple[NightRun, ...]
    status: Mapping[str, Any]

    @property
    def readable(self) -> tuple[NightRun, ...]:
        """Those with a kept report. A series that keeps none may have runs that are still there."""
        return tuple(night for night in self.nights if night.report) or self.nights


def read(body: Mapping[str, Any]) -> SeriesHistory:
    """Of a DistTestSeries; what is not there is unknown."""
    status = fields.status(body)
    found = [_night(run) for run in fields.rows(status.get("runs"))]
    return SeriesHistory(
        namespace=fields.text(fields.metadata(body).get("namespace")),
        name=fields.name(body),
        nights=tuple(reversed(found)),
        status=status,
    )


def _night(run: Mapping[str, Any]) -> NightRun:
    suites = fields.rows(run.get("suites"))
    return NightRun(
        **{key: fields.text(run.get(key)) for key in ("name", "uid", "time", "verdict", "reason", "report")},
        nodes=fields.count(run.get("nodes")),
        seconds=fields.number(run.get("seconds")),
        counts=Counts.from_json(fields.mapping(run.get("cases"))),
        suites=tuple((fields.text(suite.get("name")), fields.text(suite.get("verdict"))) for suite in suites),
        steps={str(key): fields.number(value) or 0.0 for key, value in fields.mapping(run.get("stepSeconds")).items()},
    )


def split(reference: str) -> tuple[str, str]:
    """SERIES@POSITION."""
    name, _, position = reference.partition("@")
    if not name or not _is_position(position):
        raise UsageError(f"{escaping.line(reference)!r} is no night of a series: write SERIES@ and {POSITIONS}")
    return name, position


def choose(series: SeriesHistory, position: str) -> NightRun:
    """Raises UsageError where the series has no such night."""
    nights = _readable(series)
    if position == PASSED:
        found = [night for night in nights if night.verdict == Verdict.PASSED]
    elif DATE.fullmatch(position):
        found = [night for night in nights if night.day == position]
    else:
        found = list(nights[abs(int(position)) :])
    if not found:
        known = ", ".join(f"{night.day} {night.verdict}" for night in nights)
        raise UsageError(f"series {series.name!r} has no night {position!r} with a report; it has: {known}")
    return found[0]


def last_change(series: SeriesHistory) -> tuple[NightRun, NightRun]:
    """The newest night, and what to hold it against: the newest before it that passed, else the one before it."""
    nights = _readable(series)
    if len(nights) < 2:
        raise UsageError(
            f"series {series.name!r} has one night with a report so far: there is nothing to compare it with"
        )
    newest, *before = nights
    return next((night for night in before if night.verdict == Verdict.PASSED), before[0]), newest


def earlier(series: SeriesHistory, uids: Sequence[str], most: int) -> tuple[NightRun, ...]:
    """The newest with a report that are before the last of these runs, but for these themselves."""
    nights = series.readable
    places = [place for place, night in enumerate(nights) if night.uid in uids]
    begin = min(places, default=0)
    return tuple(night for night in nights[begin:] if night.uid not in uids)[:most]


def _readable(series: SeriesHistory) -> tuple[NightRun, ...]:
    if not series.nights:
        raise UsageError(f"series {series.name!r} has no finished run yet")
    return series.readable


def _is_position(position: str) -> bool:
    """0 and below: what is to come nobody can ask for."""
    is_place = bool(PLACE.fullmatch(position)) and int(position) <= 0
    return is_place or position == PASSED or bool(DATE.fullmatch(position))
