"""Filling caches where watches leave a gap, and comparing both now and then: a watch can hang, or lose a word."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from disttest_operator.cache.cache import WATCHED, Cache, Key
from disttest_operator.controller.handlers import SELECTORS
from disttest_operator.controller.health import Health
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import Cluster, ClusterError, Kind, Page
from disttest_operator.metrics import Metrics

INTERVAL_SECONDS = 300.0
JITTER = 0.1
CATCH_UP_SECONDS = 15.0  # in which a watch must tell what a list shows
RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


class Resync:
    """One per operator, whether it acts or not: a standby's caches are warm."""

    def __init__(  # noqa: PLR0913  # what it works with, given once  # what it works with, given once
        self,
        cluster: Cluster,
        caches: Cache,
        *,
        namespaces: Sequence[str],
        add: Callable[[Key], None],
        clock: Callable[[], datetime],
        health: Health,
        metrics: Metrics,
        kinds: Sequence[Kind] = WATCHED,
        catch_up_seconds: float = CATCH_UP_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._namespaces = tuple(namespaces) or ("",)
        self._add = add
        self._clock = clock
        self._health = health
        self._metrics = metrics
        self._kinds = tuple(kinds)
        self._catch_up_seconds = catch_up_seconds

    async def run(self) -> None:
        """First when all watches have begun: what a list then shows and a watch then tells leaves no gap."""
        await self._health.all_begun.wait()
        while True:
            pause = INTERVAL_SECONDS * (1 + random.uniform(-JITTER, JITTER))  # noqa: S311  # spreads load only
            try:
                await self._once()
            except ClusterError as error:
                log.warning("resync: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._cluster.gap.wait(), pause)

    async def _once(self) -> None:
        """Whole objects where a watch tells nothing of what was before; else only what has changed is of interest."""
        if not self._health.synced.is_set():
            self._cluster.gap.set()
        if not self._cluster.gap.is_set():
            await self._compare()
            return
        self._cluster.gap.clear()
        try:
            for kind in self._kinds:
                await self._fill(kind)
        except BaseException:
            self._cluster.gap.set()  # it is still there
            raise
        self._health.synced.set()
        self._add_all()

    async def _fill(self, kind: Kind) -> None:
        present, version = set(), 0
        async for page, version in self._pages(kind, only_metadata=False):  # noqa: B007  # the last one is used below
            present |= {body["metadata"]["uid"] for body in page}
            for body in page:
                self._put(kind, body)
            await asyncio.sleep(0)  # others want to work too
        self._caches.prune(kind, present, version, self._clock())

    async def _compare(self) -> None:
        newer = {kind: await self._newer(kind) for kind in self._kinds}
        for key in self._caches.keys() - self._finished():
            self._add(key)
        if any(newer.values()):
            await self._catch_up(newer)

    async def _newer(self, kind: Kind) -> list[Body]:
        """The metadata of what the caches do not know as it is; they forget what is gone."""
        present, version, newer = set(), 0, []
        async for page, version in self._pages(kind, only_metadata=True):  # noqa: B007  # the last one is used below
            present |= {body["metadata"]["uid"] for body in page}
            newer += [body for body in page if self._is_newer(kind, body)]
            await asyncio.sleep(0)
        if pruned := self._caches.prune(kind, present, version, self._clock()):
            log.warning("resync: %d %s were gone without a word", len(pruned), kind.resource)
            self._metrics.count_healed(kind, len(pruned))
        return newer

    async def _catch_up(self, newer: dict[Kind, list[Body]]) -> None:
        """A moment later the watch should have told; if not, it is read, and it is said that the watch hangs."""
        await asyncio.sleep(self._catch_up_seconds)
        for kind, listed in newer.items():
            behind = [body["metadata"] for body in listed if self._is_newer(kind, body)]
            if not behind or self._cluster.gap.is_set():
                continue
            log.error("resync: the watch of %s did not tell of %d objects", kind.resource, len(behind))
            self._metrics.count_healed(kind, len(behind))
            for namespace in {meta["namespace"] for meta in behind}:
                self._health.note_behind(kind, namespace)
            await self._read(kind, {meta["uid"] for meta in behind})

    async def _read(self, kind: Kind, uids: set[str]) -> None:
        """From a list: a right to single pods and CronJobs would be for this alone."""
        async for page, _ in self._pages(kind, only_metadata=False):
            for body in page:
                if body["metadata"]["uid"] in uids:
                    self._put(kind, body)

    async def _pages(self, kind: Kind, *, only_metadata: bool) -> AsyncIterator[Page]:
        """Of all namespaces, with the oldest of the versions so far: what is younger is not judged by these lists."""
        selector = SELECTORS.get(kind, "")
        oldest = 0
        for namespace in self._namespaces:
            pages = self._cluster.pages(kind, namespace, label_selector=selector, only_metadata=only_metadata)
            async for page, version in pages:
                oldest = min(oldest or version, version)
                yield page, oldest

    def _is_newer(self, kind: Kind, body: Body) -> bool:
        meta = body["metadata"]
        return int(meta["resourceVersion"]) > self._caches.version_of(kind, meta["uid"])

    def _finished(self) -> set[Key]:
        """Of thousands of runs nearly all; they were looked at when they finished, and are when it is time to go."""
        tests = [run.test for run in self._caches.runs() if run.test.is_finished]
        return {Key(kind=Kind.RUN, namespace=test.namespace, name=test.name) for test in tests}

    def _add_all(self) -> None:
        for key in self._caches.keys():  # noqa: SIM118  # not a dict
            self._add(key)

    def _put(self, kind: Kind, body: Body) -> None:
        try:
            key = self._caches.put(kind, body, self._clock())
        except Exception:
            # One object that cannot be read must not end the operator for all.
            meta = body.get("metadata") or {}
            log.exception("resync: %s %s/%s", kind.resource, meta.get("namespace"), meta.get("name"))
            return
        if key:
            self._add(key)
