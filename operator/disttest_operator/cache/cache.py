"""What the watches have told: never older than before, and with the last words of pods that are gone."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from disttest_operator.cache import cached_run
from disttest_operator.cache.cached_run import CachedRun, CachedSeries, Item, Key, read_run, read_series
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import Body, JobView, PodView
from disttest_operator.core.schedule.expected_runs import CronJobView, cron_job
from disttest_operator.kubernetes.ports import Kind

__all__ = ["WATCHED", "Cache", "CachedRun", "CachedSeries", "Key"]

# Of a finished run nobody reads these any more; thousands of them would fill the memory.
DETAILS = frozenset({"failures", "suites", "cases", "bandwidth", "stepSeconds", "conditions"})
WATCHED = (Kind.RUN, Kind.SERIES, Kind.JOB, Kind.POD, Kind.CRON_JOB)
OF_SERIES = frozenset({Kind.SERIES, Kind.CRON_JOB})  # the others are a run's business


@dataclass(slots=True)
class _Known:
    resource_version: int
    key: Key
    item: Item


class Cache:
    """One entry for each object, by uid."""

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self._known: dict[Kind, dict[str, _Known]] = {kind: {} for kind in WATCHED}
        self._by_key: dict[tuple[Kind, Key], dict[str, _Known]] = {}
        self._open: dict[tuple[str, str], dict[str, CachedRun]] = {}  # runs without a verdict, by series
        self._deleted: dict[str, int] = {}  # uid -> resourceVersion of what was deleted: a list may still hold it

    def put(self, kind: Kind, body: Body, now: datetime) -> Key | None:
        """Take over an object, unless we know a newer state of it. Tells whose business it is."""
        meta = body["metadata"]
        uid, version = meta["uid"], int(meta["resourceVersion"])
        before = self._known[kind].get(uid)
        if self._is_over(uid, version) or (before and before.resource_version >= version):
            # Ledgers have one writer: the echo of its writes is no news.
            return before.key if before and kind is not Kind.SERIES else None
        item = self._view(kind, body, before.item if before else None, now)
        if item is None:
            return self._drop(kind, uid)
        known = self._keep(kind, uid, version, item)
        if isinstance(item, CachedRun):
            self._note_open(item, is_open=not item.test.is_finished)
            if item.test.is_finished:
                self._forget_pods_out_of_sight(known.key)
        return known.key

    def remove(self, kind: Kind, body: Body, now: datetime) -> Key | None:
        """A watch said that the object is gone. A pod of an unfinished run stays, with what its last event says."""
        meta = body["metadata"]
        uid = meta["uid"]
        self._deleted[uid] = int(meta["resourceVersion"])
        before = self._known[kind].get(uid)
        if kind is Kind.POD:
            pod = decoding.pod(body, now=now, before=_pod(before), is_gone=True)
            run = self.run(pod.namespace, pod.run) if pod else None
            if pod and run and run.test.uid == pod.run_uid and not run.test.is_finished:
                return self._keep(kind, uid, pod.resource_version, pod).key
        return self._drop(kind, uid)

    def prune(self, kind: Kind, present: Container[str], version: int, now: datetime) -> list[Key]:
        """Forget what is not among the uids of a list of `version`; a DELETED event may have been lost."""
        keys = []
        for uid, known in list(self._known[kind].items()):
            if uid in present or known.resource_version > version or _is_out_of_sight(known.item):
                continue
            if isinstance(known.item, PodView):
                pod = replace(known.item, is_gone=True, ending_since=known.item.ending_since or now)
                known.item = pod
                keys.append(known.key)
            elif key := self._drop(kind, uid):
                keys.append(key)
        self._deleted = {uid: deleted for uid, deleted in self._deleted.items() if deleted > version}
        return keys

    def adopt(self, test: DistTest, listed: Iterable[Body], now: datetime) -> None:
        """Take over the pods that the Job of the run's attempt has, whatever their labels are by now."""
        wanted, present = naming.labels(test, test.attempt), set()
        for body in listed:
            meta = body["metadata"]
            present.add(meta["uid"])
            labels = meta.get("labels") or {}
            if wanted.items() <= labels.items():
                self.put(Kind.POD, body, now)
                continue
            before = _pod(self._known[Kind.POD].get(meta["uid"]))
            if before and before.run_uid != test.uid:
                before = None
            if before and before.is_gone:
                before = replace(before, is_gone=False, ending_since=None)
            labelled = {**body, "metadata": {**meta, "labels": {**labels, **wanted}}}
            if pod := decoding.pod(labelled, now=now, before=before):
                self._deleted.pop(pod.uid, None)
                self._keep(Kind.POD, pod.uid, pod.resource_version, replace(pod, is_unwatched=True))
        for pod in self.pods(test):
            if pod.is_unwatched and pod.attempt == test.attempt and pod.uid not in present:
                self._keep(Kind.POD, pod.uid, pod.resource_version, replace(pod, is_gone=True, is_unwatched=False))

    def version_of(self, kind: Kind, uid: str) -> int:
        """0 for what is not known."""
        known = self._known[kind].get(uid)
        return known.resource_version if known else self._deleted.get(uid, 0)

    def run(self, namespace: str, name: str) -> CachedRun | None:
        runs = [item for item in self._items(Kind.RUN, namespace, name) if isinstance(item, CachedRun)]
        return max(runs, key=lambda run: run.test.created, default=None)

    def open_runs(self, namespace: str, series: str) -> list[CachedRun]:
        """Of the series, without a verdict, oldest first."""
        runs = self._open.get((namespace, series), {}).values()
        return sorted(runs, key=lambda run: (run.test.created, run.test.uid))

    def open_by_series(self) -> dict[tuple[str, str], tuple[CachedRun, ...]]:
        """Without a verdict, by namespace and series."""
        return {where: tuple(runs.values()) for where, runs in self._open.items()}

    def all_open(self) -> list[DistTest]:
        return [run.test for runs in self._open.values() for run in runs.values()]

    def has_half_a_gang(self, test: DistTest) -> bool:
        """Some pods of its attempt have nodes, and the scheduler finds none for others."""
        pods = [pod for pod in self.pods(test) if pod.attempt == test.attempt and not pod.has_ended]
        return any(pod.is_scheduled for pod in pods) and any(pod.is_unschedulable for pod in pods)

    def runs(self) -> list[CachedRun]:
        return [known.item for known in self._known[Kind.RUN].values() if isinstance(known.item, CachedRun)]

    def series(self) -> list[CachedSeries]:
        return [known.item for known in self._known[Kind.SERIES].values() if isinstance(known.item, CachedSeries)]

    def find_series(self, namespace: str, name: str) -> CachedSeries | None:
        return next(
            (item for item in self._items(Kind.SERIES, namespace, name) if isinstance(item, CachedSeries)), None
        )

    def schedules(self) -> list[CronJobView]:
        return [known.item for known in self._known[Kind.CRON_JOB].values() if isinstance(known.item, CronJobView)]

    def has_schedule(self, namespace: str, series: str) -> bool:
        return bool(self._items(Kind.CRON_JOB, namespace, series))

    def jobs(self, test: DistTest) -> dict[str, JobView]:
        """Of all attempts, by name."""
        items = self._items(Kind.JOB, test.namespace, test.name)
        return {job.name: job for job in items if isinstance(job, JobView) and job.owner_uid == test.uid}

    def pods(self, test: DistTest) -> tuple[PodView, ...]:
        items = self._items(Kind.POD, test.namespace, test.name)
        return tuple(pod for pod in items if isinstance(pod, PodView) and pod.run_uid == test.uid)

    def keys(self) -> set[Key]:
        return {known.key for kind in WATCHED for known in self._known[kind].values()}

    def _items(self, kind: Kind, namespace: str, name: str) -> list[Item]:
        key = Key(kind=Kind.SERIES if kind in OF_SERIES else Kind.RUN, namespace=namespace, name=name)
        return [known.item for known in self._by_key.get((kind, key), {}).values()]

    def _view(self, kind: Kind, body: Body, before: Item | None, now: datetime) -> Item | None:
        if kind is Kind.JOB:
            return decoding.job(body)
        if kind is Kind.POD:
            return decoding.pod(body, now=now, before=before if isinstance(before, PodView) else None)
        if kind is Kind.SERIES:
            return read_series(body)
        if kind is Kind.CRON_JOB:
            return cron_job(body, before if isinstance(before, CronJobView) else None)
        run = self._run(body, before if isinstance(before, CachedRun) else None)
        return _slim(run) if run.test.is_finished else run

    def _run(self, body: Body, before: CachedRun | None) -> CachedRun:
        """A spec is read once: it cannot change without its generation."""
        meta = body["metadata"]
        if before is None or before.problems or before.test.generation != meta.get("generation"):
            return read_run(body, self._defaults)
        test = replace(
            before.test,
            resource_version=meta["resourceVersion"],
            is_deleting="deletionTimestamp" in meta,
            status=body.get("status") or {},
        )
        return CachedRun(test=test)

    def _keep(self, kind: Kind, uid: str, version: int, item: Item) -> _Known:
        known = _Known(resource_version=version, key=cached_run.key(item), item=item)
        before = self._known[kind].get(uid)
        if before and before.key != known.key:  # a CronJob may be given to another series
            self._drop(kind, uid)
        self._known[kind][uid] = known
        self._by_key.setdefault((kind, known.key), {})[uid] = known
        return known

    def _is_over(self, uid: str, version: int) -> bool:
        """A watch says DELETED too when labels are removed; then the object is still to be had, and not older."""
        deleted = self._deleted.get(uid)
        if deleted is None:
            return False
        is_back = 0 < deleted <= version
        if is_back:
            del self._deleted[uid]
        return not is_back

    def _drop(self, kind: Kind, uid: str) -> Key | None:
        known = self._known[kind].pop(uid, None)
        if known is None:
            return None
        siblings = self._by_key[kind, known.key]
        siblings.pop(uid, None)
        if not siblings:
            del self._by_key[kind, known.key]
        if isinstance(known.item, CachedRun):
            self._note_open(known.item, is_open=False)
            self._forget_pods_out_of_sight(known.key)
        return known.key

    def _note_open(self, run: CachedRun, *, is_open: bool) -> None:
        where = (run.test.namespace, naming.series(run.test))
        if is_open:
            self._open.setdefault(where, {})[run.test.uid] = run
        elif where in self._open:
            self._open[where].pop(run.test.uid, None)
            if not self._open[where]:
                del self._open[where]

    def _forget_pods_out_of_sight(self, key: Key) -> None:
        for uid, known in list(self._by_key.get((Kind.POD, key), {}).items()):
            if _is_out_of_sight(known.item):
                self._drop(Kind.POD, uid)


def _slim(run: CachedRun) -> CachedRun:
    """A finished run is kept without the details of its status."""
    kept = {key: value for key, value in run.test.status.items() if key not in DETAILS}
    return replace(run, test=replace(run.test, status=kept))


def _pod(known: _Known | None) -> PodView | None:
    return known.item if known and isinstance(known.item, PodView) else None


def _is_out_of_sight(item: Item) -> bool:
    return isinstance(item, PodView) and (item.is_gone or item.is_unwatched)
