"""Retention of reports beyond their runs, by owner references alone, and expiry of idle ledgers.

A report is owned by its run. The series becomes a second owner before the run has a verdict, so the garbage collector
leaves the report when the run is deleted. To release a report the operator removes the series from its owners: then
it is deleted with the run, or at once if the run is gone. So the operator deletes no report and needs no state.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import CachedSeries
from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import RequestRefusedError
from disttest_operator.core.api.model import DistTest, Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.series import ledger
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import Cluster

log = logging.getLogger(__name__)


class ReportRetention:
    """Keeps the newest `most` reports of each series. A missing permission for ConfigMaps is logged once."""

    def __init__(self, cluster: Cluster, caches: Cache, *, most: int) -> None:
        self._cluster = cluster
        self._caches = caches
        self.most = most
        self._is_refused = False  # and this was logged

    async def keep(self, test: DistTest) -> None:
        """Make the series an owner of the run's report, if its ledger lists that and it still exists."""
        series = self._caches.find_series(test.namespace, naming.series(test))
        run = ledger.find_report(series.status, test.uid) if series else None
        body = await self._find(test.namespace, run) if run else None
        if series is None or body is None or _owns(body, series.uid):
            return
        owners = [job.run_owner(test.name, test.uid), job.series_owner(series.name, series.uid)]
        await self._set_owners(test.namespace, body, owners)

    async def release(self, series: Body, runs: Iterable[ledger.Row]) -> set[str]:
        """Release the reports of these runs; returns the uids of runs whose reports the series no longer owns."""
        namespace, uids = series["metadata"]["namespace"], set()
        for run in runs:
            body = await self._find(namespace, run)
            if body and _owns(body, series["metadata"]["uid"]):
                owners = [job.run_owner(run["name"], run["uid"])]
                if not await self._set_owners(namespace, body, owners):
                    break
            uids.add(run["uid"])
        return uids

    async def _find(self, namespace: str, run: ledger.Row) -> Body | None:
        """The ConfigMap of the report; one with another label is not ours."""
        body = await self._cluster.get(Kind.CONFIG_MAP, namespace, run["report"], only_metadata=True)
        labels = (body["metadata"].get("labels") or {}) if body else {}
        return body if labels.get(naming.LABEL_UID) == run["uid"] else None

    async def _set_owners(self, namespace: str, body: Body, owners: list[Manifest]) -> bool:
        try:
            await self._cluster.patch_owners(Kind.CONFIG_MAP, body["metadata"], owners)
        except RequestRefusedError as error:
            if not self._is_refused:
                words = (
                    "%s: owners of reports cannot be changed (see manifests/rbac/runs), so reports are not retained: %s"
                )
                log.warning(words, namespace, error)
            self._is_refused = True
            return False
        return True


def _owns(body: Body, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in body["metadata"].get("ownerReferences") or ())


# If all clocks are wrong, one ledger per hour is lost, each with a log line, not all at once.
PAUSE_SECONDS = 3600.0


@dataclass(slots=True, kw_only=True)
class LedgerExpiry:
    """Deletes idle ledgers when their series is reconciled, which happens every five minutes at least.

    The operator's and the API server's clock must both be past the limit: one clock that jumps deletes nothing.
    """

    cluster: Cluster
    caches: Cache
    clock: Callable[[], datetime]
    idle_days: int
    monotonic: Callable[[], float] = time.monotonic
    _paused_until: float = 0.0
    _is_refused: bool = False  # and this was logged

    async def check(self, namespace: str, name: str) -> None:
        """Delete the ledger if it is idle and has not changed since."""
        series = self.caches.find_series(namespace, name)
        ended = _ended(series) if series else None
        if series is None or ended is None or not self._is_over(ended, self.clock()) or self._is_used(series):
            return
        try:
            if self._is_paused() or await self._has_cron_job(series):
                return
            if self._is_over(ended, self.cluster.server_time) and not self._is_paused():
                await self._delete(series, ended)
        except RequestRefusedError as error:
            if not self._is_refused:
                log.warning("series %s/%s is idle but cannot be deleted (logged only once): %s", namespace, name, error)
            self._is_refused = True

    def _is_paused(self) -> bool:
        return self.monotonic() < self._paused_until

    def _is_over(self, ended: datetime, now: datetime | None) -> bool:
        return self.idle_days > 0 and now is not None and now - ended > timedelta(days=self.idle_days)

    def _is_used(self, series: CachedSeries) -> bool:
        """By a run or a CronJob in the cache. A finished run counts too: it may need its ledger again."""
        tests = (run.test for run in self.caches.runs() if run.test.namespace == series.namespace)
        has_run = any(naming.series(test) == series.name for test in tests)
        return has_run or self.caches.has_schedule(series.namespace, series.name)

    async def _has_cron_job(self, series: CachedSeries) -> bool:
        """A suspended one counts too. Read live: without the permission for CronJobs the cache has none."""
        selector = f"{naming.LABEL_SERIES}={series.name}"
        return bool(await self.cluster.list(Kind.CRON_JOB, series.namespace, label_selector=selector))

    async def _delete(self, series: CachedSeries, ended: datetime) -> None:
        self._paused_until = self.monotonic() + PAUSE_SECONDS
        namespace, name, version = series.namespace, series.name, str(series.resource_version)
        await self.cluster.delete(Kind.SERIES, namespace, name, uid=series.uid, version=version)
        words = "series %s/%s: deleted its ledger of %s runs, the last of them finished at %s (--series-idle-days %d)"
        log.warning(words, namespace, name, series.status.get("runCount"), ended.isoformat(), self.idle_days)
        self.caches.forget(Kind.SERIES, series.uid, series.resource_version)


def _ended(series: CachedSeries) -> datetime | None:
    """When its last run finished; None while a run may be without its verdict."""
    return None if series.status.get("pending") else decoding.time(series.status.get("lastCompletionTime"))
