"""Reports that outlive their runs: whose a report is, and nothing else, decides when it goes.

A report belongs to its run. The series becomes its second owner before the run shows a verdict: the garbage collector
takes what has no owner left, so it stays when the run goes. To let it go the operator gives it back to the run: with
the run it stays or goes, and if that has gone already the collector takes it at once. So the operator deletes nothing
itself, and need not know whether the run is still there.
"""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from disttest_operator.cache.cache import Cache, CachedSeries
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import DistTest, Manifest
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.series import report_retention
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import Cluster, Kind, RefusedError

log = logging.getLogger(__name__)


class ReportRetention:
    """Of the newest `most` reports of each series. An operator that may not write ConfigMaps says so once."""

    def __init__(self, cluster: Cluster, caches: Cache, *, most: int) -> None:
        self._cluster = cluster
        self._caches = caches
        self.most = most
        self._is_refused = False  # and it was said

    async def keep(self, test: DistTest) -> None:
        """Nothing that its ledger does not list; a run that is gone took its report along."""
        series = self._caches.find_series(test.namespace, naming.series(test))
        run = report_retention.find(series.status, test.uid) if series else None
        body = await self._find(test.namespace, run) if run else None
        if series is None or body is None or _owns(body, series.uid):
            return
        owners = [job.owner(test), job.series_owner(series.name, series.uid)]
        await self._give(test.namespace, body, owners)

    async def give_back(self, series: Body, runs: Iterable[report_retention.Run]) -> set[str]:
        """The reports of these runs; the uids of those that are the series' no more."""
        namespace, uids = series["metadata"]["namespace"], set()
        for run in runs:
            body = await self._find(namespace, run)
            if body and _owns(body, series["metadata"]["uid"]):
                owners = [job.run_owner(run["name"], run["uid"])]
                if not await self._give(namespace, body, owners):
                    break
            uids.add(run["uid"])
        return uids

    async def _find(self, namespace: str, run: report_retention.Run) -> Body | None:
        """A ConfigMap of the name may be somebody else's."""
        body = await self._cluster.get(Kind.CONFIG_MAP, namespace, run["report"], only_metadata=True)
        labels = (body["metadata"].get("labels") or {}) if body else {}
        return body if labels.get(naming.LABEL_UID) == run["uid"] else None

    async def _give(self, namespace: str, body: Body, owners: list[Manifest]) -> bool:
        try:
            await self._cluster.patch_owners(Kind.CONFIG_MAP, body["metadata"], owners)
        except RefusedError as error:
            if not self._is_refused:
                words = (
                    "%s: owners of reports cannot be changed (manifests/rbac/runs), so they go with their owners: %s"
                )
                log.warning(words, namespace, error)
            self._is_refused = True
            return False
        return True


def _owns(body: Body, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in body["metadata"].get("ownerReferences") or ())


# A clock that is wrong everywhere costs one ledger an hour, with a line in the log for each, and not all at once.
PAUSE_SECONDS = 3600.0


class LedgerExpiry:
    """Looks at a series whenever that is reconciled: every five minutes at least, when all are compared with lists.

    Our clock and the API server's must both say that it is time: one that jumps ahead alone deletes nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        caches: Cache,
        *,
        clock: Callable[[], datetime],
        idle_days: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._clock = clock
        self._idle = timedelta(days=idle_days)
        self._monotonic = monotonic
        self._rests_until = 0.0
        self._is_refused = False  # and it was said

    async def look(self, namespace: str, name: str) -> None:
        """Deletes the ledger if it is idle, just as it was when that was found."""
        series = self._caches.find_series(namespace, name)
        ended = _ended(series) if series else None
        if series is None or ended is None or not self._is_over(ended, self._clock()) or self._is_used(series):
            return
        try:
            if self._rests() or await self._is_wanted(series):
                return
            if self._is_over(ended, self._cluster.server_time) and not self._rests():
                await self._delete(series, ended)
        except RefusedError as error:
            if not self._is_refused:
                log.warning("series %s/%s is idle and stays, as do others: %s", namespace, name, error)
            self._is_refused = True

    def _rests(self) -> bool:
        return self._monotonic() < self._rests_until

    def _is_over(self, ended: datetime, now: datetime | None) -> bool:
        return bool(self._idle) and now is not None and now - ended > self._idle

    def _is_used(self, series: CachedSeries) -> bool:
        """By what the caches know: any run that is still there counts, it may be told again of its ledger."""
        tests = (run.test for run in self._caches.runs() if run.test.namespace == series.namespace)
        has_run = any(naming.series(test) == series.name for test in tests)
        return has_run or self._caches.has_schedule(series.namespace, series.name)

    async def _is_wanted(self, series: CachedSeries) -> bool:
        """By a CronJob, a suspended one too. Asked live: where CronJobs may not be read the caches have none."""
        selector = f"{naming.LABEL_SERIES}={series.name}"
        cron_jobs, _ = await self._cluster.list(Kind.CRON_JOB, series.namespace, label_selector=selector)
        return bool(cron_jobs)

    async def _delete(self, series: CachedSeries, ended: datetime) -> None:
        self._rests_until = self._monotonic() + PAUSE_SECONDS
        namespace, name, version = series.namespace, series.name, str(series.resource_version)
        await self._cluster.delete(Kind.SERIES, namespace, name, uid=series.uid, version=version)
        words = "series %s/%s: deleted its ledger of %s runs, the last of them finished at %s (--series-idle-days %d)"
        log.warning(words, namespace, name, series.status.get("runCount"), ended.isoformat(), self._idle.days)
        gone = {"metadata": {"uid": series.uid, "resourceVersion": version}}
        self._caches.remove(Kind.SERIES, gone, self._clock())


def _ended(series: CachedSeries) -> datetime | None:
    """When its last run finished; None while a run may not know its verdict."""
    return None if series.status.get("pending") else decoding.time(series.status.get("lastCompletionTime"))
