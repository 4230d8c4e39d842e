"""Writing the status of a run: guarded, once, with the events that follow from it."""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from disttest_operator.cache.cache import Cache, CachedSeries, Key
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Concurrency, DistTest
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.status import events
from disttest_operator.core.status.status import without_details
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import Cluster, ClusterError, ConflictError, ExistsError, Kind, RefusedError
from disttest_operator.series.ledger_store import series_key

SETTLE_SECONDS = 2.0  # after a verdict, so that the entries of several runs go in one write

log = logging.getLogger(__name__)


class StatusWriter:
    """The only writer of the status of DistTests. `plan_later` adds another key to the queue."""

    def __init__(
        self,
        cluster: Cluster,
        caches: Cache,
        *,
        clock: Callable[[], datetime],
        instance: str,
        plan_later: Callable[[Key, float], None],
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._clock = clock
        self._instance = instance
        self._plan_later = plan_later

    async def write(self, test: DistTest, status: dict[str, Any]) -> None:
        """Events follow only if the write succeeded. After a conflict the newest state is in the cache."""
        body = await self._write(test, status)
        if body is None:
            return
        if status.get("verdict"):
            words = (status["verdict"], status["reason"], status["message"])
            log.info("%s/%s: %s (%s): %s", test.namespace, test.name, *words)
            self._plan_later(series_key(test.namespace, naming.series(test)), SETTLE_SECONDS)
            self._wake_those_who_wait(test)
        await self._announce(test, body)

    async def write_progress(self, test: DistTest, progress: Mapping[str, Any]) -> bool:
        """False: this cluster does not take it, and will not take the next one either."""
        where = f"{test.namespace}/{test.name}"
        try:
            body = await self._write(test, {"progress": dict(progress)})
        except RefusedError as error:
            log.warning("%s: goes on without progress in its status: %s", where, error)
            return False
        is_kept = body is None or bool((body.get("status") or {}).get("progress"))
        if not is_kept:
            log.warning("%s: goes on without progress in its status: apply the newer manifests/crd", where)
        return is_kept

    async def _write(self, test: DistTest, status: dict[str, Any]) -> Body | None:
        """None: somebody was faster."""
        meta = {
            "namespace": test.namespace,
            "name": test.name,
            "uid": test.uid,
            "resourceVersion": test.resource_version,
        }
        try:
            body = await self._patch_status(meta, status)
        except ConflictError:
            live = await self._cluster.get(Kind.RUN, test.namespace, test.name)
            if live:
                self._caches.put(Kind.RUN, live, self._clock())
            if live is None or live["metadata"]["resourceVersion"] == test.resource_version:
                raise
            return None
        if body is None:
            raise ConflictError(f"{test.namespace}/{test.name} is gone")
        self._caches.put(Kind.RUN, body, self._clock())
        return body

    def _wake_those_who_wait(self, test: DistTest) -> None:
        for run in self._caches.open_runs(test.namespace, naming.series(test)):
            if run.test.spec.concurrency_policy is Concurrency.WAIT:
                self._plan_later(Key(kind=Kind.RUN, namespace=run.test.namespace, name=run.test.name), 0)

    async def _patch_status(self, meta: dict[str, str], status: dict[str, Any]) -> Body | None:
        """A verdict gets through, whatever else is refused."""
        try:
            return await self._cluster.patch_status(Kind.RUN, meta, status)
        except RefusedError as error:
            if not status.get("verdict"):
                raise
            log.error("%s/%s: the whole status is refused: %s", meta["namespace"], meta["name"], error)  # noqa: TRY400  # the traceback says nothing
            return await self._cluster.patch_status(Kind.RUN, meta, without_details(status))

    async def _announce(self, test: DistTest, body: Body) -> None:
        for transition in events.between(test.status, body.get("status") or {}):
            event = job.build_event(
                test,
                reason=transition.reason,
                note=transition.note,
                warning=transition.is_warning,
                now=self._clock(),
                instance=self._instance,
            )
            try:
                await self._cluster.create(Kind.EVENT, event)
            except ExistsError:
                continue
            except ClusterError as error:
                log.warning("%s/%s: event %s is lost: %s", test.namespace, test.name, transition.reason, error)


class SuspectLabels:
    """Nodes have it as long as a series blames them. Works from what is there: nothing need be remembered."""

    def __init__(self, cluster: Cluster, caches: Cache) -> None:
        self._cluster = cluster
        self._caches = caches

    async def refresh(self) -> None:
        """A node that cannot be labelled keeps no run from its verdict."""
        wanted = suspect_nodes(self._caches.series())
        try:
            listed, _ = await self._cluster.list(Kind.NODE, label_selector=naming.LABEL_SUSPECT)
            labels = {body["metadata"]["name"]: body["metadata"]["labels"][naming.LABEL_SUSPECT] for body in listed}
            for name in sorted(wanted.keys() | labels.keys()):
                if wanted.get(name) != labels.get(name):
                    log.info("node %s: label %s is now %s", name, naming.LABEL_SUSPECT, wanted.get(name) or "gone")
                    await self._cluster.patch_labels(Kind.NODE, name, {naming.LABEL_SUSPECT: wanted.get(name)})
        except ClusterError as error:
            log.warning("labels of suspect nodes are not as they should be: %s", error)


def suspect_nodes(series: Iterable[CachedSeries]) -> dict[str, str]:
    """Name of the node to the reason, of all that are blamed and not cleared; of several reasons the newest."""
    rows = [row for one in series for row in one.status.get("blamedNodes") or () if "clearedTime" not in row]
    return {row["name"]: row["reason"] for row in sorted(rows, key=lambda row: row["lastTime"])}
