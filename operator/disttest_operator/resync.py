"""Comparing caches with lists now and then: a watch can lose a deletion, and can hang without a word."""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import datetime

from disttest_operator.caches import WATCHED, Caches, Key
from disttest_operator.core import naming
from disttest_operator.core.views import Body
from disttest_operator.handlers import SELECTED
from disttest_operator.health import Health
from disttest_operator.metrics import Metrics
from disttest_operator.ports import Cluster, ClusterError, Kind

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
        caches: Caches,
        *,
        namespace: str,
        add: Callable[[Key], None],
        clock: Callable[[], datetime],
        health: Health,
        metrics: Metrics,
        catch_up_seconds: float = CATCH_UP_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._namespace = namespace
        self._add = add
        self._clock = clock
        self._health = health
        self._metrics = metrics
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
                pause = RETRY_SECONDS
            await asyncio.sleep(pause)

    async def _once(self) -> None:
        is_first = not self._health.synced.is_set()
        newer: dict[Kind, list[Body]] = {}
        for kind in WATCHED:
            selector = naming.SELECTOR if kind in SELECTED else ""
            listed, version = await self._cluster.list(kind, self._namespace, label_selector=selector)
            newer[kind] = [body for body in listed if self._is_newer(kind, body)]
            pruned = self._caches.prune(kind, listed, version, self._clock())
            if is_first:
                self._take(kind, newer[kind])
            elif pruned:
                log.warning("resync: %d %s were gone without a word", len(pruned), kind.resource)
                self._metrics.count_healed(kind, len(pruned))
        self._health.synced.set()
        for key in self._caches.keys():  # noqa: SIM118  # not a dict
            self._add(key)
        if not is_first and any(newer.values()):
            await self._catch_up(newer)

    async def _catch_up(self, newer: dict[Kind, list[Body]]) -> None:
        """A moment later the watch should have told; if not, take it from the list, and say that the watch hangs."""
        await asyncio.sleep(self._catch_up_seconds)
        for kind, listed in newer.items():
            behind = [body for body in listed if self._is_newer(kind, body)]
            if behind:
                log.error("resync: the watch of %s did not tell of %d objects", kind.resource, len(behind))
                self._metrics.count_healed(kind, len(behind))
                self._health.note_behind(kind)
                self._take(kind, behind)

    def _is_newer(self, kind: Kind, body: Body) -> bool:
        meta = body["metadata"]
        return int(meta["resourceVersion"]) > self._caches.version_of(kind, meta["uid"])

    def _take(self, kind: Kind, listed: list[Body]) -> None:
        for body in listed:
            try:
                key = self._caches.put(kind, body, self._clock())
            except Exception:
                # One object that cannot be read must not end the operator for all.
                meta = body.get("metadata") or {}
                log.exception("resync: %s %s/%s", kind.resource, meta.get("namespace"), meta.get("name"))
                continue
            if key:
                self._add(key)
