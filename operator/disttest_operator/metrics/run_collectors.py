"""Metrics of runs, series, nodes and schedules. Only the active operator exposes them, with a filled cache."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from prometheus_client.core import Metric

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import CachedSeries
from disttest_operator.core.api.model import Concurrency, DistTest, Phase
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Policy
from disttest_operator.core.schedule.expected_runs import Expectation, Outlook, Timetable
from disttest_operator.metrics import exposition, families, series_collectors
from disttest_operator.metrics.exposition import ExpositionPart
from disttest_operator.metrics.families import Family

PHASES = tuple(phase.value for phase in Phase if phase is not Phase.FINISHED)
GRACE_SECONDS = Policy().grace_seconds


def run_state(tests: Sequence[DistTest], now: datetime) -> tuple[float, ...]:
    """The open runs of one series: the number in each phase, the oldest start, the next deadline."""
    counted = Counter(test.status.get("phase") or Phase.QUEUED.value for test in tests)
    numbers = [float(counted[phase]) for phase in PHASES]
    oldest = min(tests, key=lambda test: (test.created, test.uid), default=None)
    if oldest is None:
        return tuple(numbers)
    moving = [test for test in tests if test is oldest or not _waits_for_older(test)]
    ends = [attempts.deadline_of(test, now, grace_seconds=GRACE_SECONDS) for test in moving]
    first = min((end for end in ends if end), default=None)
    return (*numbers, oldest.created.timestamp(), *([first.timestamp()] if first else []))


def _waits_for_older(test: DistTest) -> bool:
    return test.spec.concurrency_policy is Concurrency.WAIT and not test.has_begun


def active_runs(common: tuple[str, ...], state: tuple[float, ...]) -> Iterator[Metric]:
    """The families for a `run_state`."""
    counts, times = state[: len(PHASES)], state[len(PHASES) :]
    phases = (((phase,), count) for phase, count in zip(PHASES, counts, strict=True))
    yield exposition.rows(families.ACTIVE_RUNS, common, phases)
    yield exposition.rows(families.ACTIVE_START, common, [((), at) for at in times[:1]])
    yield exposition.rows(families.ACTIVE_DEADLINE, common, [((), at) for at in times[1:2]])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """`rows` are (node, reason, confirmed), `failures` (node, reason, number of runs); `cut` suspects are missing."""

    rows: tuple[tuple[str, str, str], ...] = ()
    failures: tuple[tuple[str, str, int], ...] = ()
    cut: int = 0


def suspects_by_node(ledgers: Iterable[CachedSeries]) -> Suspects:
    """A node that several series blame has the reason of the latest, and is confirmed if one of them confirmed it."""
    latest: dict[str, Mapping[str, Any]] = {}
    confirmed: set[str] = set()
    failures: Counter[tuple[str, str]] = Counter()
    for series in ledgers:
        for row in (series.status.get("totals") or {}).get("nodeFailures") or ():
            failures[row["node"], row["reason"]] += row["count"]
        for row in series.status.get("blamedNodes") or ():
            if "clearedTime" in row:
                continue
            if row["confirmed"]:
                confirmed.add(row["name"])
            if row["name"] not in latest or row["lastTime"] > latest[row["name"]]["lastTime"]:
                latest[row["name"]] = row
    names = sorted(latest, key=lambda name: (name not in confirmed, name))
    rows = tuple(
        (name, latest[name].get("reason", ""), "true" if name in confirmed else "false") for name in names[:LISTED]
    )
    counts = tuple((node, reason, count) for (node, reason), count in sorted(failures.items()))
    return Suspects(rows=rows, failures=counts, cut=max(0, len(names) - LISTED))


def suspect_nodes(found: Suspects) -> Iterator[Metric]:
    yield exposition.rows(families.NODE_SUSPECT, (), ((labels, 1) for labels in found.rows))
    failures = (((node, reason), count) for node, reason, count in found.failures)
    yield exposition.rows(families.NODE_FAILURES, (), failures)


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
        open_runs = self._caches.open.by_series()
        for common in sorted({(series.namespace, series.name) for series in known} | open_runs.keys()):
            state = run_state([run.test for run in open_runs.get(common, ())], now)
            yield ExpositionPart(key=("active", common), state=state, make=partial(active_runs, common, state))
        outlook = self._timetable.outlook(self._caches.schedules(), now)
        if outlook.expected:
            yield ExpositionPart(key="schedules", state=outlook, make=partial(schedules, outlook.expected))
        missing = cut(outlook)
        yield ExpositionPart(key="nodes", state=(versions, outlook.cut), make=partial(_across, known, missing))


def _across(known: list[CachedSeries], cut: Mapping[str, int]) -> Iterator[Metric]:
    """Families without the label series. `cut` has the numbers of missing samples of other families."""
    suspects = suspects_by_node(known)
    yield from suspect_nodes(suspects)
    missing = {**series_collectors.cut(known), **cut}
    missing[families.NODE_SUSPECT.shown_name] = missing.get(families.NODE_SUSPECT.shown_name, 0) + suspects.cut
    yield exposition.rows(families.DROPPED, (), (((name,), count) for name, count in sorted(missing.items())))
