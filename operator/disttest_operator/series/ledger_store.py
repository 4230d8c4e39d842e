"""Counts each run once in the ledger of its series, by compare-and-swap writes, one at a time for a series."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from disttest_operator.cache.cache import Cache
from disttest_operator.core import actions
from disttest_operator.core.api.api_errors import AlreadyExistsError, ApiServerError, ConflictError, RequestRefusedError
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.series import ledger
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import Cluster, LedgerWrite, OperationCounter
from disttest_operator.series.retention import ReportRetention

ATTEMPTS = 8  # of a compare-and-swap: there is a second writer only while another operator takes over

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _FoldRequest:
    """One run to count, and the result."""

    test: DistTest
    step: actions.Fold
    is_done: bool = False
    entry: ledger.Entry | None = None


@dataclass(slots=True)
class _FoldQueue:
    """The requests for one ledger. The holder of the lock writes for all of them."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: list[_FoldRequest] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStore:
    """The only writer of DistTestSeries."""

    cluster: Cluster
    caches: Cache
    clock: Callable[[], datetime]
    counts: OperationCounter
    retention: ReportRetention
    _queues: dict[tuple[str, str], _FoldQueue] = field(default_factory=dict)

    async def fold(self, test: DistTest, step: actions.Fold) -> ledger.Entry | None:
        """Count the run and return its entry. None: the run is finished or gone, and is not counted."""
        queue, request = self._queue(test.namespace, step.series), _FoldRequest(test, step)
        queue.requests.append(request)
        try:
            async with queue.lock:
                if not request.is_done:
                    await self._fold(queue, test.namespace, step.series, first=request)
        finally:
            queue.requests.remove(request)
        return request.entry

    async def settle(self, namespace: str, series: str) -> None:
        """Remove the entries of runs that have their verdict, or are gone."""
        async with self._queue(namespace, series).lock:
            body = self._cached(namespace, series) or await self.cluster.get(Kind.SERIES, namespace, series)
            if body is None:
                return
            try:
                await self._settle(body)
            except ConflictError:
                live = await self.cluster.get(Kind.SERIES, namespace, series)
                if live is None:
                    self.caches.remove(Kind.SERIES, body, self.clock())
                    return
                await self._settle(live)

    def _queue(self, namespace: str, series: str) -> _FoldQueue:
        return self._queues.setdefault((namespace, series), _FoldQueue())

    async def _fold(self, queue: _FoldQueue, namespace: str, series: str, *, first: _FoldRequest) -> None:
        """Write until the first request is done, together with as many others as fit."""
        body = self._cached(namespace, series) or await self._open(namespace, series)
        for _ in range(ATTEMPTS):
            status = body.get("status") or {}
            # After the ledger is read: a run that another operator counts later makes our write fail, and one that it
            # counted and settled before has its verdict.
            wanted = [first, *(request for request in queue.requests if request is not first and not request.is_done)]
            counted = await self._choose(status, wanted[: ledger.PENDING])
            if first.is_done:
                return
            try:
                status = ledger.settle(status, self._finished(namespace, status))
                folded = counted[: max(1, ledger.PENDING - len(status["pending"]))]
                status = self._count(status, folded)
                # Usually none: they were released when they were no longer among the newest.
                await self.retention.release(body, ledger.unlisted_reports(body.get("status") or {}, status))
                await self._write(body, status)
            except ConflictError:
                body = await self._open(namespace, series)
            except ledger.LedgerFullError:
                body = await self._settle(body)
            else:
                for request in folded:
                    request.is_done, request.entry = True, request.step.entry
                return
        raise ApiServerError(
            f"ledger {namespace}/{series}: {ATTEMPTS} consecutive writes conflicted with other writes; retried later"
        )

    def _count(self, status: ledger.Status, requests: list[_FoldRequest]) -> ledger.Status:
        for request in requests:
            status = ledger.fold(
                status,
                request.step.entry,
                request.step.results,
                nodes=request.test.spec.nodes,
                keeps_reports=self.retention.most > 0,
            )
        return status

    async def _choose(self, status: ledger.Status, requests: list[_FoldRequest]) -> list[_FoldRequest]:
        """Mark requests that need no counting as done, and return the others."""
        for request in requests:
            if existing := ledger.find_entry(status, request.test.uid):
                request.is_done, request.entry = True, existing
        left = [request for request in requests if not request.is_done]
        tests = [request.test for request in left]
        are_open = await asyncio.gather(*(self._is_open(test.namespace, test.name, test.uid) for test in tests))
        for request, is_open in zip(left, are_open, strict=True):
            request.is_done = not is_open
        return [request for request in left if not request.is_done]

    def _finished(self, namespace: str, status: ledger.Status) -> set[str]:
        """The uids of entries whose runs have their verdict in the cache."""
        uids = set()
        for entry in status.get("pending") or ():
            known = self.caches.run(namespace, entry["name"])
            if known is not None and known.test.uid == entry["uid"] and known.test.is_finished:
                uids.add(entry["uid"])
        return uids

    async def _settle(self, body: Body) -> Body:
        """Remove the entries of finished runs, and of runs that a live read finds to be gone.

        The same write removes the reports that were released.
        """
        before, namespace = body.get("status") or {}, body["metadata"]["namespace"]
        status = ledger.settle(before, self._finished(namespace, before))
        released = await self._release_surplus(body, status)
        pending = status["pending"]
        gone = {entry["uid"] for entry in pending if not await self._is_open(namespace, entry["name"], entry["uid"])}
        status = ledger.forget_reports(ledger.settle(status, gone), released)
        is_changed = released or len(status["pending"]) < len(before.get("pending") or ())
        return await self._write(body, status) if is_changed else body

    async def _release_surplus(self, body: Body, status: ledger.Status) -> set[str]:
        """Release reports that are no longer among the newest. A failure must not block other entries."""
        meta = body["metadata"]
        try:
            return await self.retention.release(body, ledger.surplus_reports(status, self.retention.most))
        except ConflictError:
            raise
        except ApiServerError as error:
            log.warning("series %s/%s: old reports could not be released: %s", meta["namespace"], meta["name"], error)
            return set()

    def _cached(self, namespace: str, series: str) -> Body | None:
        """The ledger of the last write or watch event; writing from an older state fails."""
        known = self.caches.find_series(namespace, series)
        if known is None:
            return None
        meta = {
            "namespace": namespace,
            "name": series,
            "uid": known.uid,
            "resourceVersion": str(known.resource_version),
        }
        return {"metadata": meta, "status": known.status}

    async def _open(self, namespace: str, series: str) -> Body:
        body = await self.cluster.get(Kind.SERIES, namespace, series)
        if body is None:
            try:
                return await self.cluster.create(Kind.SERIES, job.build_series(namespace, series))
            except AlreadyExistsError as error:
                raise ConflictError(f"ledger {namespace}/{series} was created by another operator") from error
        return body

    async def _is_open(self, namespace: str, name: str, uid: str) -> bool:
        """Read the run: whether it exists, is not being deleted, and has no verdict."""
        body = await self.cluster.get(Kind.RUN, namespace, name)
        if body is None or body["metadata"]["uid"] != uid:
            self.caches.forget(Kind.RUN, uid)
            return False
        self.caches.put(Kind.RUN, body, self.clock())
        return "deletionTimestamp" not in body["metadata"] and not (body.get("status") or {}).get("verdict")

    async def _write(self, body: Body, status: ledger.Status) -> Body:
        try:
            written = await self.cluster.patch_status(Kind.SERIES, body["metadata"], status)
        except ApiServerError as error:
            self.counts.count_ledger_write(_kind_of(error))
            raise
        self.counts.count_ledger_write(LedgerWrite.CONFLICT if written is None else LedgerWrite.SUCCESS)
        if written is None:
            self.caches.remove(Kind.SERIES, body, self.clock())
            raise ConflictError(f"ledger {body['metadata']['name']} was deleted meanwhile")
        self.caches.put(Kind.SERIES, written, self.clock())
        return written


def _kind_of(error: ApiServerError) -> LedgerWrite:
    match error:
        case ConflictError():
            return LedgerWrite.CONFLICT
        case RequestRefusedError():
            return LedgerWrite.REFUSED
        case _:
            return LedgerWrite.ERROR
