"""Writes the status of runs and the events that follow from it, and labels suspect nodes."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import CachedSeries, Key, blames
from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import AlreadyExistsError, ApiServerError, ConflictError, RequestRefusedError
from disttest_operator.core.api.model import Concurrency, DistTest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.status import events
from disttest_operator.core.status.status import without_details
from disttest_operator.kubernetes.ports import Cluster

SETTLE_SECONDS = 2.0  # after a verdict, so that one write removes the entries of several runs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWriter:
    """The only writer of the status of DistTests. `plan_later` adds another key to the queue."""

    cluster: Cluster
    caches: Cache
    clock: Callable[[], datetime]
    instance: str
    plan_later: Callable[[Key, float], None]

    async def write(self, test: DistTest, status: dict[str, Any]) -> None:
        """Create events only if the write succeeded. After a conflict the newest state is in the cache."""
        body = await self._write(test, status)
        if body is None:
            return
        if status.get("verdict"):
            words = (status["verdict"], status["reason"], status["message"])
            log.info("%s/%s: %s (%s): %s", test.namespace, test.name, *words)
            self.plan_later(Key.of_series(test.namespace, naming.series(test)), SETTLE_SECONDS)
            self._add_waiting_runs(test)
        await self._announce(test, body)

    async def write_progress(self, test: DistTest, progress: Mapping[str, Any]) -> bool:
        """False: this cluster does not store progress, now and later."""
        where = f"{test.namespace}/{test.name}"
        try:
            body = await self._write(test, {"progress": dict(progress)})
        except RequestRefusedError as error:
            log.warning("%s: progress cannot be written to the status: %s", where, error)
            return False
        is_kept = body is None or bool((body.get("status") or {}).get("progress"))
        if not is_kept:
            log.warning("%s: the CRD has no status.progress; apply the newer manifests/crd", where)
        return is_kept

    async def _write(self, test: DistTest, status: dict[str, Any]) -> Body | None:
        """None: the object was changed by another client."""
        meta = {
            "namespace": test.namespace,
            "name": test.name,
            "uid": test.uid,
            "resourceVersion": test.resource_version,
        }
        try:
            body = await self._patch_status(meta, status)
        except ConflictError:
            live = await self.cluster.get(Kind.RUN, test.namespace, test.name)
            if live:
                self.caches.put(Kind.RUN, live, self.clock())
            if live is None or live["metadata"]["resourceVersion"] == test.resource_version:
                raise
            return None
        if body is None:
            raise ConflictError(f"DistTest {test.namespace}/{test.name} was deleted")
        self.caches.put(Kind.RUN, body, self.clock())
        return body

    def _add_waiting_runs(self, test: DistTest) -> None:
        for run in self.caches.open_runs_of(test.namespace, naming.series(test)):
            if run.test.spec.concurrency_policy is Concurrency.WAIT:
                self.plan_later(Key.of_run(run.test), 0)

    async def _patch_status(self, meta: dict[str, str], status: dict[str, Any]) -> Body | None:
        """A verdict is written even if the details of the status are refused."""
        try:
            return await self.cluster.patch_status(Kind.RUN, meta, status)
        except RequestRefusedError as error:
            if not status.get("verdict"):
                raise
            words = "%s/%s: the API server rejected the status, so its details are omitted: %s"
            log.error(words, meta["namespace"], meta["name"], error)  # noqa: TRY400  # the traceback is of no use
            return await self.cluster.patch_status(Kind.RUN, meta, without_details(status))

    async def _announce(self, test: DistTest, body: Body) -> None:
        for transition in events.between(test.status, body.get("status") or {}):
            try:
                event = events.build(test, transition, now=self.clock(), instance=self.instance)
                await self.cluster.create(Kind.EVENT, event)
            except AlreadyExistsError:
                continue
            except ApiServerError as error:
                log.warning(
                    "%s/%s: event %s could not be created: %s", test.namespace, test.name, transition.reason, error
                )


async def label_suspect_nodes(cluster: Cluster, ledgers: Iterable[CachedSeries]) -> None:
    """Label nodes while a series blames them. It compares with the existing labels, so it needs no state.

    Errors are only logged: a node that cannot be labelled must not prevent a verdict.
    """
    wanted = suspect_nodes(ledgers)
    try:
        listed = await cluster.list(Kind.NODE, label_selector=naming.LABEL_SUSPECT)
        labels = {body["metadata"]["name"]: body["metadata"]["labels"][naming.LABEL_SUSPECT] for body in listed}
        for name in sorted(wanted.keys() | labels.keys()):
            if wanted.get(name) != labels.get(name):
                log.info("node %s: label %s is now %s", name, naming.LABEL_SUSPECT, wanted.get(name) or "removed")
                await cluster.patch_labels(Kind.NODE, name, {naming.LABEL_SUSPECT: wanted.get(name)})
    except ApiServerError as error:
        log.warning("suspect nodes could not be labelled: %s", error)


def suspect_nodes(ledgers: Iterable[CachedSeries]) -> dict[str, str]:
    """The reason of the latest blame by node, without nodes that were cleared."""
    return {row["name"]: row["reason"] for row in blames(ledgers)}
