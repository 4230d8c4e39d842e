"""The operator's view of the cluster, for reconciles and metrics."""

from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from disttest_operator.cache.cached_run import CachedItem, CachedRun, CachedSeries, Key, read_run, read_series
from disttest_operator.cache.versioned_store import PodStore, VersionedStore, is_untracked
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import Body, JobView, PodView
from disttest_operator.core.schedule.expected_runs import CronJobView, cron_job

# Unused fields of finished runs, dropped from the cache: thousands of them would fill the memory.
DETAILS = frozenset({"failures", "suites", "cases", "bandwidth", "stepSeconds", "conditions"})


class Cache:
    """DistTests and the objects around them, parsed once. Methods that change it return the key to reconcile."""

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self._runs = VersionedStore[CachedRun]()
        self._series = VersionedStore[CachedSeries]()
        self._jobs = VersionedStore[JobView]()
        self._pods = PodStore()
        self._cron_jobs = VersionedStore[CronJobView]()
        self._stores: dict[Kind, VersionedStore[Any]] = {
            Kind.RUN: self._runs,
            Kind.SERIES: self._series,
            Kind.JOB: self._jobs,
            Kind.POD: self._pods,
            Kind.CRON_JOB: self._cron_jobs,
        }
        self._open = VersionedStore[CachedRun](_series_of)  # runs without a verdict: a few among thousands

    def put(self, kind: Kind, body: Body, now: datetime) -> Key | None:
        """Store an object, unless a newer state of it is known. None: there is nothing to reconcile."""
        meta, store = body["metadata"], self._stores[kind]
        uid, version = meta["uid"], int(meta["resourceVersion"])
        before = store.find(uid)
        if store.is_stale(uid, version):
            # The operator is the only writer of ledgers: events of its writes need no reconcile.
            return before.key if before and kind is not Kind.SERIES else None
        item = self._decode(kind, body, before.item if before else None, now)
        if item is None:
            return self._drop(kind, uid)
        key = store.put(uid, version, item)
        if isinstance(item, CachedRun):
            if item.test.is_finished:
                self._open.drop(uid)
                self._pods.drop_untracked(key)
            else:
                self._open.put(uid, version, item)
        return key

    def remove(self, kind: Kind, body: Body, now: datetime) -> Key | None:
        """Remove an object that was deleted. A pod of an unfinished run stays, marked as gone."""
        uid, version = body["metadata"]["uid"], int(body["metadata"]["resourceVersion"])
        pod = self._pods.decode_gone(body, now) if kind is Kind.POD else None
        if pod is None or not self._has_open_run(pod):
            return self.forget(kind, uid, version)
        key = self._pods.put(uid, version, pod)
        self._pods.note_deleted(uid, version)
        return key

    def forget(self, kind: Kind, uid: str, version: int = 0) -> Key | None:
        """Remove an object that no longer exists; 0: with an unknown version."""
        key = self._drop(kind, uid)
        self._stores[kind].note_deleted(uid, version)
        return key

    def prune(self, kind: Kind, present: Container[str], version: int, now: datetime) -> list[Key]:
        """Remove what a list of `version` does not have, by uid; a DELETED event may have been lost."""
        keys = []
        for uid, entry in self._stores[kind].entries():
            item = entry.item
            if uid in present or entry.resource_version > version:
                continue
            if not isinstance(item, PodView):
                self._drop(kind, uid)
            elif is_untracked(item):
                continue
            else:
                entry.item = replace(item, is_gone=True, ending_since=item.ending_since or now)
            keys.append(entry.key)
        for store in self._stores.values():
            store.forget_deletions(version)
        return keys

    def adopt(self, test: DistTest, listed: Iterable[Body], now: datetime) -> None:
        """Store the pods that the Job of the run's attempt has, whatever their labels are by now."""
        wanted, present = naming.labels(test, test.attempt), set()
        for body in listed:
            present.add(body["metadata"]["uid"])
            if wanted.items() <= (body["metadata"].get("labels") or {}).items():
                self.put(Kind.POD, body, now)
            else:
                self._pods.adopt(test, body, now)
        self._pods.mark_missing(test, self.pods(test), present)

    def version_of(self, kind: Kind, uid: str) -> int:
        return self._stores[kind].version_of(uid)

    def keys(self) -> set[Key]:
        return {entry.key for store in self._stores.values() for _, entry in store.entries()}

    def run(self, namespace: str, name: str) -> CachedRun | None:
        """The newest run of this name."""
        runs = self._runs.items_of(Key(kind=Kind.RUN, namespace=namespace, name=name))
        return max(runs, key=lambda run: run.test.created, default=None)

    def runs(self) -> list[CachedRun]:
        return self._runs.items()

    def open_runs(self) -> list[CachedRun]:
        """The runs without a verdict."""
        return self._open.items()

    def open_runs_of(self, namespace: str, series: str) -> list[CachedRun]:
        """Oldest first."""
        runs = self._open.items_of(Key.of_series(namespace, series))
        return sorted(runs, key=lambda run: (run.test.created, run.test.uid))

    def series(self) -> list[CachedSeries]:
        return self._series.items()

    def find_series(self, namespace: str, name: str) -> CachedSeries | None:
        return next(iter(self._series.items_of(Key.of_series(namespace, name))), None)

    def schedules(self) -> list[CronJobView]:
        return self._cron_jobs.items()

    def has_schedule(self, namespace: str, series: str) -> bool:
        return bool(self._cron_jobs.items_of(Key.of_series(namespace, series)))

    def jobs(self, test: DistTest) -> dict[str, JobView]:
        """The Jobs of all attempts of the run, by name."""
        jobs = self._jobs.items_of(Key.of_run(test))
        return {job.name: job for job in jobs if job.owner_uid == test.uid}

    def pods(self, test: DistTest) -> tuple[PodView, ...]:
        pods = self._pods.items_of(Key.of_run(test))
        return tuple(pod for pod in pods if pod.run_uid == test.uid)

    def _decode(self, kind: Kind, body: Body, before: Any, now: datetime) -> CachedItem | None:
        match kind:
            case Kind.JOB:
                return decoding.job(body)
            case Kind.POD:
                return decoding.pod(body, now=now, before=before)
            case Kind.SERIES:
                return read_series(body)
            case Kind.CRON_JOB:
                return cron_job(body, before)
            case _:
                return self._decode_run(body, before)

    def _decode_run(self, body: Body, before: CachedRun | None) -> CachedRun:
        """A spec is parsed only once: it cannot change without its generation."""
        meta = body["metadata"]
        if before is None or before.problems or before.test.generation != meta.get("generation"):
            run = read_run(body, self._defaults)
        else:
            version, is_deleting = meta["resourceVersion"], "deletionTimestamp" in meta
            status = body.get("status") or {}
            run = CachedRun(test=replace(before.test, resource_version=version, is_deleting=is_deleting, status=status))
        if not run.test.is_finished:
            return run
        kept = {key: value for key, value in run.test.status.items() if key not in DETAILS}
        return replace(run, test=replace(run.test, status=kept))

    def _has_open_run(self, pod: PodView) -> bool:
        run = self.run(pod.namespace, pod.run)
        return run is not None and run.test.uid == pod.run_uid and not run.test.is_finished

    def _drop(self, kind: Kind, uid: str) -> Key | None:
        entry = self._stores[kind].drop(uid)
        if entry is None:
            return None
        if isinstance(entry.item, CachedRun):
            self._open.drop(uid)
            self._pods.drop_untracked(entry.key)
        return entry.key


def _series_of(run: CachedRun) -> Key:
    return Key.of_series(run.test.namespace, naming.series(run.test))
