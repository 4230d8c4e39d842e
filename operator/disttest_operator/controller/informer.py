"""Keeps the cache up to date by watch events and lists, and checks that the watches are alive."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import Key
from disttest_operator.core.api.api_errors import ApiServerError
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.api_session import ApiRequest
from disttest_operator.kubernetes.ports import SELECTORS, WATCHED, Cluster, Page
from disttest_operator.metrics import Metrics

INTERVAL_SECONDS = 300.0
JITTER = 0.1
CATCH_UP_SECONDS = 15.0  # in which a watch must report what a list has
RETRY_SECONDS = 5.0
STALLED_SECONDS = 420.0  # watches are restarted every four minutes

log = logging.getLogger(__name__)


class WatchHealth:
    """The state of all watches, one for each kind and namespace. Without `namespaces` a watch is for all of them."""

    def __init__(self, namespaces: Sequence[str] = (), monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since = monotonic()
        self._namespaces = tuple(namespaces)
        self._watches = tuple((kind.resource, place) for kind in WATCHED for place in self._namespaces or ("",))
        self._started: dict[tuple[str, str], float] = {}
        self._lagging: set[tuple[str, str]] = set()
        self.all_started = asyncio.Event()
        self.synced = asyncio.Event()

    def exclude(self, kind: Kind) -> None:
        """The kind is not watched."""
        self._watches = tuple(watch for watch in self._watches if watch[0] != kind.resource)

    def note_request(self, request: ApiRequest, code: str) -> None:
        if request.verb == "watch" and code == "200":
            self._started[request.resource, request.namespace] = self._monotonic()
            if all(watch in self._started for watch in self._watches):
                self.all_started.set()

    def note_event(self, kind: Kind, namespace: str) -> None:
        self._lagging.discard(self._watch(kind, namespace))

    def note_lagging(self, kind: Kind, namespace: str) -> None:
        """The watch did not report what a list has."""
        self._lagging.add(self._watch(kind, namespace))

    def problems(self) -> list[str]:
        """Why this process needs a restart; empty if it does not."""
        now = self._monotonic()
        ages = {watch: now - self._started.get(watch, self._since) for watch in self._watches}
        stalled = {watch: age for watch, age in ages.items() if age > STALLED_SECONDS}
        return [
            *(f"watch of {_describe(watch)} has not restarted for {age:.0f} s" for watch, age in stalled.items()),
            *(
                f"watch of {_describe(watch)} does not report objects that lists contain"
                for watch in sorted(self._lagging)
            ),
        ]

    def watch_ages(self) -> dict[str, float]:
        """Seconds since the watch of each resource was restarted, of several namespaces the oldest."""
        ages: dict[str, float] = {}
        for (resource, _), started in self._started.items():
            ages[resource] = max(ages.get(resource, 0.0), self._monotonic() - started)
        return ages

    def _watch(self, kind: Kind, namespace: str) -> tuple[str, str]:
        return kind.resource, namespace if self._namespaces else ""


def _describe(watch: tuple[str, str]) -> str:
    resource, namespace = watch
    return f"{resource} in {namespace}" if namespace else resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Informer:
    """Fills the cache and adds the keys of changed objects to the queue, in a standby too: it takes over at once."""

    cluster: Cluster
    caches: Cache
    namespaces: Sequence[str]  # empty: all
    add: Callable[[Key], None]
    clock: Callable[[], datetime]
    health: WatchHealth
    metrics: Metrics
    kinds: Sequence[Kind] = WATCHED
    catch_up_seconds: float = CATCH_UP_SECONDS

    def handle_event(self, kind: Kind, event_type: str | None, body: Body) -> None:
        """Take over an object that a watch reported."""
        self.metrics.note_event(kind)
        self.health.note_event(kind, body["metadata"].get("namespace", ""))
        change = self.caches.remove if event_type == "DELETED" else self.caches.put
        if key := change(kind, body, self.clock()):
            self.add(key)

    async def run(self) -> None:
        """Resync forever. It starts when all watches have started, so that no change is between list and watch."""
        await self.health.all_started.wait()
        while True:
            pause = INTERVAL_SECONDS * (1 + random.uniform(-JITTER, JITTER))  # noqa: S311  # spreads load only
            try:
                await self._resync()
            except ApiServerError as error:
                log.warning("resync: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.cluster.gap.wait(), pause)

    async def _resync(self) -> None:
        """Read whole objects after a gap of the watches, else only the metadata that shows what has changed."""
        if not self.health.synced.is_set():
            self.cluster.gap.set()
        if not self.cluster.gap.is_set():
            await self._compare()
            return
        self.cluster.gap.clear()
        try:
            for kind in self.kinds:
                await self._list(kind, self._put, only_metadata=False)
        except BaseException:
            self.cluster.gap.set()  # the gap still exists
            raise
        self.health.synced.set()
        for key in self.caches.keys():  # noqa: SIM118  # not a dict
            self.add(key)

    async def _compare(self) -> None:
        newer = {kind: await self._newer(kind) for kind in self.kinds}
        # Most of thousands of runs are finished, and have timers for their remaining steps.
        finished = {Key.of_run(run.test) for run in self.caches.runs() if run.test.is_finished}
        for key in self.caches.keys() - finished:
            self.add(key)
        if any(newer.values()):
            await self._catch_up(newer)

    async def _newer(self, kind: Kind) -> list[Body]:
        """The metadata of objects that are newer than in the cache; those that are gone are removed from it."""
        newer: list[Body] = []

        def compare(kind: Kind, body: Body) -> None:
            if self._is_newer(kind, body):
                newer.append(body)

        if pruned := await self._list(kind, compare, only_metadata=True):
            log.warning("resync: %d %s were deleted without a watch event", len(pruned), kind.resource)
            self.metrics.count_healed(kind, len(pruned))
        return newer

    async def _list(self, kind: Kind, take: Callable[[Kind, Body], None], *, only_metadata: bool) -> list[Key]:
        """Pass all objects to `take`, remove those that are gone from the cache, and return the keys of these."""
        present, version = set(), 0
        async for page, version in self._pages(kind, only_metadata=only_metadata):  # noqa: B007  # the last one is used below
            for body in page:
                present.add(body["metadata"]["uid"])
                take(kind, body)
            await asyncio.sleep(0)  # let other tasks run
        return self.caches.prune(kind, present, version, self.clock())

    async def _catch_up(self, newer: dict[Kind, list[Body]]) -> None:
        """Give watches time to report newer objects; read those that they do not, and note that the watch lags."""
        await asyncio.sleep(self.catch_up_seconds)
        for kind, listed in newer.items():
            behind = [body["metadata"] for body in listed if self._is_newer(kind, body)]
            if not behind or self.cluster.gap.is_set():
                continue
            log.error("resync: the watch of %s did not report %d objects", kind.resource, len(behind))
            self.metrics.count_healed(kind, len(behind))
            for namespace in {meta["namespace"] for meta in behind}:
                self.health.note_lagging(kind, namespace)
            await self._read(kind, {meta["uid"] for meta in behind})

    async def _read(self, kind: Kind, uids: set[str]) -> None:
        """Read objects from a list: getting single pods and CronJobs would need a permission for this alone."""
        async for page, _ in self._pages(kind, only_metadata=False):
            for body in page:
                if body["metadata"]["uid"] in uids:
                    self._put(kind, body)

    async def _pages(self, kind: Kind, *, only_metadata: bool) -> AsyncIterator[Page]:
        """The lists of all namespaces, with the oldest resourceVersion so far: newer objects may be missing there."""
        selector = SELECTORS.get(kind, "")
        oldest = 0
        for namespace in self.namespaces or ("",):
            pages = self.cluster.pages(kind, namespace, label_selector=selector, only_metadata=only_metadata)
            async for page, version in pages:
                oldest = min(oldest or version, version)
                yield page, oldest

    def _is_newer(self, kind: Kind, body: Body) -> bool:
        meta = body["metadata"]
        return int(meta["resourceVersion"]) > self.caches.version_of(kind, meta["uid"])

    def _put(self, kind: Kind, body: Body) -> None:
        try:
            key = self.caches.put(kind, body, self.clock())
        except Exception:
            # One object that cannot be read must not end the operator for all.
            meta = body.get("metadata") or {}
            log.exception("resync: %s %s/%s", kind.resource, meta.get("namespace"), meta.get("name"))
            return
        if key:
            self.add(key)
