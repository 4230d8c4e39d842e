"""Series of runs: their ledgers, positions of runs in a series, and reports of these runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from disttest_cli import fields
from disttest_cli.errors import UsageError
from disttest_cli.kube import error_advice, runs, stored
from disttest_cli.kube.client import Body, KubeClient
from disttest_contract.outcomes import Counts, Verdict
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting
from disttest_operator.core.api import schema
from disttest_operator.core.api.resources import Kind

NEWEST, PASSED = "0", "passed"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
PLACE = re.compile(r"-?\d{1,3}")
POSITIONS = (
    "0 (newest run with a report), -1 (the one before it), passed (newest that passed), or a date like 2026-11-20"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """A finished run of a series. `report` is the retained ConfigMap, empty if there is none."""

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
    """`nights` are the newest first; `status` is that of the ledger."""

    namespace: str
    name: str
    nights: tuple[NightRun, ...]
    status: Mapping[str, Any]

    @property
    def readable(self) -> tuple[NightRun, ...]:
        """Nights with a retained report; all if there is none, since their runs may still exist."""
        return tuple(night for night in self.nights if night.report) or self.nights


def read_ledger(body: Mapping[str, Any]) -> SeriesHistory:
    status = fields.status(body)
    found = [_night(run) for run in fields.rows(status.get("runs"))]
    return SeriesHistory(
        namespace=fields.namespace(body),
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


def split_reference(reference: str) -> tuple[str, str]:
    """Split SERIES@POSITION. Raises UsageError."""
    name, _, position = reference.partition("@")
    if not name or not _is_position(position):
        raise UsageError(
            f"{escaping.line(reference)!r} is not a run of a series. "
            f"Write SERIES@POSITION, where POSITION is {POSITIONS}."
        )
    return name, position


def choose(series: SeriesHistory, position: str) -> NightRun:
    """Return the night at a position. Raises UsageError if there is none."""
    nights = _readable(series)
    if position == PASSED:
        found = [night for night in nights if night.verdict == Verdict.PASSED]
    elif DATE.fullmatch(position):
        found = [night for night in nights if night.day == position]
    else:
        found = list(nights[abs(int(position)) :])
    if not found:
        known = ", ".join(f"{night.day} {night.verdict}" for night in nights)
        raise UsageError(f"series {series.name!r} has no run {position!r} with a report. Available: {known}")
    return found[0]


def last_change_of(series: SeriesHistory) -> tuple[NightRun, NightRun]:
    """Return the baseline, the newest earlier night that passed or else the previous one, and the newest night."""
    nights = _readable(series)
    if len(nights) < 2:
        raise UsageError(f"series {series.name!r} has only one run with a report. A comparison needs two.")
    newest, *before = nights
    return next((night for night in before if night.verdict == Verdict.PASSED), before[0]), newest


def earlier_nights(series: SeriesHistory, uids: Sequence[str], most: int) -> tuple[NightRun, ...]:
    """The newest nights with a report, from the newest of these runs on and without them."""
    nights = series.readable
    places = [place for place, night in enumerate(nights) if night.uid in uids]
    begin = min(places, default=0)
    return tuple(night for night in nights[begin:] if night.uid not in uids)[:most]


def _readable(series: SeriesHistory) -> tuple[NightRun, ...]:
    if not series.nights:
        raise UsageError(f"series {series.name!r} has no finished run yet")
    return series.readable


def _is_position(position: str) -> bool:
    is_place = bool(PLACE.fullmatch(position)) and int(position) <= 0
    return is_place or position == PASSED or bool(DATE.fullmatch(position))


FIRST_SERIES = "A series is created when the first run with its name in spec.series has finished."
KIND = "disttestseries.disttest.dev"  # as printed by -o name
LISTED = 5


def report(server: KubeClient, namespace: str, reference: str) -> Report:
    """The report of a run NAME or a night SERIES@POSITION."""
    if "@" in reference:
        name, position = split_reference(reference)
        ledger = find(server, namespace, name)
        return of_night(server, ledger, choose(ledger, position))
    name = runs.bare_name(reference)
    if not schema.matches(runs.NAME, name):
        raise UsageError(
            f"{escaping.line(reference)!r} is not a run, a run of a series or a file. Write a name from `disttest list "
            f"-n {namespace}`, SERIES@{NEWEST}, or a path with a slash, .json or .json.gz."
        )
    return stored.find(server, namespace, name).report


def of_night(server: KubeClient, series: SeriesHistory, night: NightRun) -> Report:
    """The report of a night; a later run with the same name has another uid."""
    found = stored.find(server, series.namespace, night.name).report
    if found.uid != night.uid:
        raise UsageError(
            f"the report of {night.name!r} in series {series.name!r} at {night.time} no longer exists, because a later "
            "run has the same name. Choose another run."
        )
    return found


def last_change_reports(server: KubeClient, namespace: str, name: str) -> tuple[Report, Report]:
    found = find(server, namespace, name)
    before, newest = last_change_of(found)
    return of_night(server, found, before), of_night(server, found, newest)


def earlier_reports(
    server: KubeClient, namespace: str, name: str, besides: tuple[str, str], most: int
) -> tuple[list[Report], list[str]]:
    """Return reports of the series except those with these uids, and why others are not available."""
    if not name:
        raise UsageError("--against reads reports of B's series, but B has no series. Remove --against.")
    found, missing = [], []
    ledger = find(server, namespace, name)
    for night in earlier_nights(ledger, besides, most):
        try:
            found.append(of_night(server, ledger, night))
        except UsageError as error:
            missing.append(str(error))
    return found, missing


def find(server: KubeClient, namespace: str, name: str) -> SeriesHistory:
    """Read a series. Raises CommandError."""
    bare = name.removeprefix(f"{KIND}/")
    if not schema.matches(runs.NAME, bare):
        raise UsageError(
            f"{escaping.line(name)!r} is not a valid name of a series. To list series, run `disttest history -n "
            f"{namespace}`."
        )
    with error_advice.explaining():
        body = server.get(Kind.SERIES, namespace, bare)
        known = [] if body else [fields.name(one) for one in server.list(Kind.SERIES, namespace)]
    if body is None:
        raise UsageError(f"series {bare!r} does not exist in namespace {namespace}. {_advice(bare, known)}")
    return read_ledger(body)


def every_series(server: KubeClient, namespace: str) -> list[Body]:
    with error_advice.explaining():
        bodies = server.list(Kind.SERIES, namespace)
    return sorted(bodies, key=lambda body: (fields.namespace(body), fields.name(body)))


def _advice(name: str, known: Sequence[str]) -> str:
    if not known:
        return FIRST_SERIES
    return runs.did_you_mean(name, known) or f"Available: {formatting.listed(sorted(known), LISTED)}"
