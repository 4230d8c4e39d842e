"""Metrics of runs, series, nodes and schedules. Only the active operator exposes them, with a filled cache."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from prometheus_client.core import Metric

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import CachedSeries, blames
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Concurrency, DistTest, Phase
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Policy
from disttest_operator.core.schedule.expected_runs import Expectation, Outlook, Timetable
from disttest_operator.metrics import exposition, families, series_collectors
from disttest_operator.metrics.exposition import ExpositionPart, Row
from disttest_operator.metrics.families import Family

PHASES = tuple(phase.value for phase in Phase if phase is not Phase.FINISHED)
GRACE_SECONDS = Policy().grace_seconds
ACTIVE = (families.ACTIVE_RUNS, families.ACTIVE_START, families.ACTIVE_DEADLINE)
Samples = tuple[Row, ...]


def active_state(tests: Sequence[DistTest], now: datetime) -> tuple[Samples, ...]:
    """The samples of `ACTIVE` for the open runs of one series."""
    counted = Counter(test.status.get("phase") or Phase.QUEUED.value for test in tests)
    phases = tuple(((phase,), counted[phase]) for phase in PHASES)
    oldest = min(tests, key=lambda test: (test.created, test.uid), default=None)
    if oldest is None:
        return phases, (), ()
    moving = [test for test in tests if test is oldest or not _waits_for_older(test)]
    ends = [attempts.deadline_of(test, now, grace_seconds=GRACE_SECONDS) for test in moving]
    first = min((end for end in ends if end), default=None)
    return phases, (((), oldest.created.timestamp()),), (((), first.timestamp()),) if first else ()


def _waits_for_older(test: DistTest) -> bool:
    return test.spec.concurrency_policy is Concurrency.WAIT and not test.has_begun


def active_runs(common: tuple[str, ...], state: tuple[Samples, ...]) -> Iterator[Metric]:
    for family, samples in zip(ACTIVE, state, strict=True):
        yield exposition.rows(family, common, samples)


def schedules(expected: Sequence[Expectation]) -> Iterator[Metric]:
    """All families of the group; an unknown value has no sample."""
    for family, value in VALUES.items():
        known = (((one.namespace, one.series), value(one)) for one in expected)
        yield exposition.rows(family, (), ((labels, number) for labels, number in known if number is not None))


def cut(outlook: Outlook) -> dict[str, int]:
    """The number of missing series by the name of their family, at least."""
    return {family.shown_name: outlook.cut for family in VALUES} if outlook.cut else {}


def _stamp(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None


VALUES: Mapping[Family, Callable[[Expectation], float | None]] = {
    families.SCHEDULE_DUE: lambda one: _stamp(one.due),
    families.SCHEDULE_NEXT: lambda one: _stamp(one.next),
    families.SCHEDULE_INTERVAL: lambda one: one.interval_seconds,
    families.SCHEDULE_SUSPENDED: lambda one: one.is_suspended,
    families.SCHEDULE_READABLE: lambda one: one.is_readable,
}


LISTED = 200


def suspect_nodes(ledgers: Iterable[CachedSeries]) -> list[tuple[str, str, str]]:
    """Node, reason and whether it is confirmed, those first that are.

    A node that several series suspect has the latest reason, and is confirmed if one of them confirmed it.
    """
    rows = blames(ledgers)
    reasons = {row["name"]: row.get("reason", "") for row in rows}
    confirmed = {row["name"] for row in rows if row["confirmed"]}
    names = sorted(reasons, key=lambda name: (name not in confirmed, name))
    return [(name, reasons[name], "true" if name in confirmed else "false") for name in names]


def node_failures(ledgers: Iterable[CachedSeries]) -> list[Row]:
    failures: Counter[tuple[str, ...]] = Counter()
    for series in ledgers:
        for row in (series.status.get("totals") or {}).get("nodeFailures") or ():
            failures[row["node"], row["reason"]] += row["count"]
    return sorted(failures.items())


class RunCollector:
    """Collects from ledgers and the cache at each scrape."""

    def __init__(self, caches: Cache, clock: Callable[[], datetime]) -> None:
        self._caches = caches
        self._clock = clock
        self._timetable = Timetable()

    def parts(self) -> Iterator[ExpositionPart]:
        now = self._clock()
        known = sorted(self._caches.series(), key=lambda series: (series.namespace, series.name))
        versions = tuple((series.uid, series.resource_version) for series in known)
        for series, version in zip(known, versions, strict=True):
            yield ExpositionPart(key=("ledger", series.uid), state=version, make=partial(series_collectors.of, series))
        open_runs = {(run.test.namespace, naming.series(run.test)) for run in self._caches.open_runs()}
        for common in sorted({(series.namespace, series.name) for series in known} | open_runs):
            state = active_state([run.test for run in self._caches.open_runs_of(*common)], now)
            yield ExpositionPart(key=("active", common), state=state, make=partial(active_runs, common, state))
        outlook = self._timetable.outlook(self._caches.schedules(), now)
        if outlook.expected:
            yield ExpositionPart(key="schedules", state=outlook, make=partial(schedules, outlook.expected))
        missing = cut(outlook)
        yield ExpositionPart(key="nodes", state=(versions, outlook.cut), make=partial(_across, known, missing))


def _across(known: list[CachedSeries], cut: Mapping[str, int]) -> Iterator[Metric]:
    """Families without the label series. `cut` has the numbers of missing samples of other families."""
    suspects = suspect_nodes(known)
    yield exposition.rows(families.NODE_SUSPECT, (), ((labels, 1) for labels in suspects[:LISTED]))
    yield exposition.rows(families.NODE_FAILURES, (), node_failures(known))
    missing = Counter({**series_collectors.cut(known), **cut})
    missing[families.NODE_SUSPECT.shown_name] += max(0, len(suspects) - LISTED)
    yield exposition.rows(families.DROPPED, (), (((name,), count) for name, count in sorted(missing.items())))
