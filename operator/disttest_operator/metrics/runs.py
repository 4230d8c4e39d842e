"""What is told of runs, series, nodes and schedules: by one operator only, and not before its caches are filled."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial

from prometheus_client.core import Metric

from disttest_operator.caches import Caches
from disttest_operator.core.schedule import Timetable
from disttest_operator.items import Series
from disttest_operator.metrics import active, families, ledgers, nodes, sampling, schedules
from disttest_operator.metrics.exposition import Part


class Runs:
    """From ledgers and caches at the moment of the scrape."""

    def __init__(self, caches: Caches, clock: Callable[[], datetime]) -> None:
        self._caches = caches
        self._clock = clock
        self._timetable = Timetable()

    def parts(self) -> Iterator[Part]:
        now = self._clock()
        known = sorted(self._caches.series(), key=lambda series: (series.namespace, series.name))
        versions = tuple((series.uid, series.resource_version) for series in known)
        for series, version in zip(known, versions, strict=True):
            yield Part(key=("ledger", series.uid), state=version, make=partial(ledgers.of, series))
        open_runs = self._caches.open_by_series()
        for common in sorted({(series.namespace, series.name) for series in known} | open_runs.keys()):
            state = active.state([run.test for run in open_runs.get(common, ())], now)
            yield Part(key=("active", common), state=state, make=partial(active.of, common, state))
        outlook = self._timetable.outlook(self._caches.schedules(), now)
        if outlook.expected:
            yield Part(key="schedules", state=outlook, make=partial(schedules.of, outlook.expected))
        missing = schedules.cut(outlook)
        yield Part(key="nodes", state=(versions, outlook.cut), make=partial(_across, known, missing))


def _across(known: list[Series], cut: Mapping[str, int]) -> Iterator[Metric]:
    """What has no series of its own; `cut` are samples that are missing elsewhere, by family."""
    suspects = nodes.suspects(known)
    yield from nodes.of(suspects)
    missing = {**ledgers.cut(known), **cut}
    missing[families.NODE_SUSPECT.shown_name] = missing.get(families.NODE_SUSPECT.shown_name, 0) + suspects.cut
    yield sampling.rows(families.DROPPED, (), (((name,), count) for name, count in sorted(missing.items())))
