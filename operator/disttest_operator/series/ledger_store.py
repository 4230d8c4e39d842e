"""Counting runs in their ledgers, each once: compare-and-swap, one at a time for a series."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from disttest_operator.cache.cache import Cache, Key
from disttest_operator.core import actions
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.series import ledger
from disttest_operator.core.series.report_retention import fallen, forget, surplus
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import (
    Cluster,
    ClusterError,
    ConflictError,
    ExistsError,
    Kind,
    LedgerWrite,
    RefusedError,
    RequestCounter,
)
from disttest_operator.series.retention import ReportRetention

ATTEMPTS = 8  # of a compare-and-swap: others write a ledger when an operator takes over, not otherwise

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Wish:
    """One run that is to be counted, and what came of it."""

    test: DistTest
    step: actions.Fold
    is_done: bool = False
    holds: ledger.Entry | None = None


@dataclass(slots=True)
class _Book:
    """One ledger. Who has the lock writes for all that wait."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wishes: list[_Wish] = field(default_factory=list)


class LedgerStore:
    """The only writer of DistTestSeries."""

    def __init__(
        self,
        cluster: Cluster,
        caches: Cache,
        clock: Callable[[], datetime],
        *,
        counts: RequestCounter,
        keeping: ReportRetention,
    ) -> None:
        self._counts = counts
        self._keeping = keeping
        self._cluster = cluster
        self._caches = caches
        self._clock = clock
        self._books: dict[tuple[str, str], _Book] = {}

    async def fold(self, test: DistTest, step: actions.Fold) -> ledger.Entry | None:
        """Count the run and give the entry that holds. None: it needs no counting, it is finished or gone."""
        book, wish = self._book(test.namespace, step.series), _Wish(test, step)
        book.wishes.append(wish)
        try:
            async with book.lock:
                if not wish.is_done:
                    await self._fold(book, test.namespace, step.series, first=wish)
        finally:
            book.wishes.remove(wish)
        return wish.holds

    async def settle(self, namespace: str, series: str) -> None:
        """Forget entries whose runs know their verdict, or are gone."""
        async with self._book(namespace, series).lock:
            body = self._cached(namespace, series) or await self._cluster.get(Kind.SERIES, namespace, series)
            if body is None:
                return
            try:
                await self._settle(body)
            except ConflictError:
                live = await self._cluster.get(Kind.SERIES, namespace, series)
                if live is None:
                    self._forget(body)
                    return
                await self._settle(live)

    def _book(self, namespace: str, series: str) -> _Book:
        return self._books.setdefault((namespace, series), _Book())

    async def _fold(self, book: _Book, namespace: str, series: str, *, first: _Wish) -> None:
        """Until the first wish is fulfilled; as many of the others as there is room for go with it."""
        body = self._cached(namespace, series) or await self._open(namespace, series)
        for _ in range(ATTEMPTS):
            status = body.get("status") or {}
            # In this order: who counted a run after this state of the ledger makes our write fail, and who had counted
            # and settled it before shows in the run itself.
            wanted = [first, *(wish for wish in book.wishes if wish is not first and not wish.is_done)]
            counted = await self._choose(status, wanted[: ledger.PENDING])
            if first.is_done:
                return
            try:
                status = ledger.settle(status, self._finished(namespace, status))
                taken = counted[: max(1, ledger.PENDING - len(status["pending"]))]
                status = self._count(status, taken)
                # None as a rule: they were given back when they were no longer among the newest.
                await self._keeping.give_back(body, fallen(body.get("status") or {}, status))
                await self._write(body, status)
            except ConflictError:
                body = await self._open(namespace, series)
            except ledger.LedgerFullError:
                body = await self._settle(body)
            else:
                for wish in taken:
                    wish.is_done, wish.holds = True, wish.step.entry
                return
        raise ClusterError(f"ledger {namespace}/{series}: {ATTEMPTS} writes in a row met another's; again later")

    def _count(self, status: ledger.Status, wishes: list[_Wish]) -> ledger.Status:
        for wish in wishes:
            status = ledger.fold(
                status,
                wish.step.entry,
                wish.step.results,
                nodes=wish.test.spec.nodes,
                keeps_reports=self._keeping.most > 0,
            )
        return status

    async def _choose(self, status: ledger.Status, wishes: list[_Wish]) -> list[_Wish]:
        """Those that must be counted; the others are done."""
        for wish in wishes:
            if existing := ledger.find_entry(status, wish.test.uid):
                wish.is_done, wish.holds = True, existing
        left = [wish for wish in wishes if not wish.is_done]
        tests = [wish.test for wish in left]
        are_open = await asyncio.gather(*(self._is_open(test.namespace, test.name, test.uid) for test in tests))
        for wish, is_open in zip(left, are_open, strict=True):
            wish.is_done = not is_open
        return [wish for wish in left if not wish.is_done]

    def _finished(self, namespace: str, status: ledger.Status) -> set[str]:
        """Of the entries, those whose runs are known to have their verdict."""
        uids = set()
        for entry in status.get("pending") or ():
            known = self._caches.run(namespace, entry["name"])
            if known is not None and known.test.uid == entry["uid"] and known.test.is_finished:
                uids.add(entry["uid"])
        return uids

    async def _settle(self, body: Body) -> Body:
        """What is not known to be finished is looked at: a run that is gone needs its entry no more.

        In the same write the reports that were given back are forgotten.
        """
        before, meta = body.get("status") or {}, body["metadata"]
        status = ledger.settle(before, self._finished(meta["namespace"], before))
        back = await self._give_back(body, status)
        gone = set()
        for entry in status["pending"]:
            if not await self._is_open(meta["namespace"], entry["name"], entry["uid"]):
                gone.add(entry["uid"])
        status = forget(ledger.settle(status, gone), back)
        is_news = back or len(status["pending"]) < len(before.get("pending") or ())
        return await self._write(body, status) if is_news else body

    async def _give_back(self, body: Body, status: ledger.Status) -> set[str]:
        """Those that are no longer among the newest. Reports that cannot be had now keep no run from being settled."""
        meta = body["metadata"]
        try:
            return await self._keeping.give_back(body, surplus(status, self._keeping.most))
        except ConflictError:
            raise
        except ClusterError as error:
            log.warning("series %s/%s: keeps more reports than it should: %s", meta["namespace"], meta["name"], error)
            return set()

    def _cached(self, namespace: str, series: str) -> Body | None:
        """As the last write left it, or the watch told it: a write from an older state fails."""
        known = self._caches.find_series(namespace, series)
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
        body = await self._cluster.get(Kind.SERIES, namespace, series)
        if body is None:
            try:
                return await self._cluster.create(Kind.SERIES, job.build_series(namespace, series))
            except ExistsError as error:
                raise ConflictError(f"ledger {namespace}/{series} was created by another") from error
        return body

    async def _is_open(self, namespace: str, name: str, uid: str) -> bool:
        """By a live read: whether the run is there, wanted, and without a verdict."""
        body = await self._cluster.get(Kind.RUN, namespace, name)
        if body is None or body["metadata"]["uid"] != uid:
            self._caches.remove(Kind.RUN, {"metadata": {"uid": uid, "resourceVersion": "0"}}, self._clock())
            return False
        self._caches.put(Kind.RUN, body, self._clock())
        return "deletionTimestamp" not in body["metadata"] and not (body.get("status") or {}).get("verdict")

    async def _write(self, body: Body, status: ledger.Status) -> Body:
        try:
            written = await self._cluster.patch_status(Kind.SERIES, body["metadata"], status)
        except ClusterError as error:
            self._counts.count_ledger_write(_kind_of(error))
            raise
        self._counts.count_ledger_write(LedgerWrite.CONFLICT if written is None else LedgerWrite.SUCCESS)
        if written is None:
            self._forget(body)
            raise ConflictError(f"ledger {body['metadata']['name']} was deleted meanwhile")
        self._caches.put(Kind.SERIES, written, self._clock())
        return written

    def _forget(self, body: Body) -> None:
        self._caches.remove(Kind.SERIES, body, self._clock())


def _kind_of(error: ClusterError) -> LedgerWrite:
    match error:
        case ConflictError():
            return LedgerWrite.CONFLICT
        case RefusedError():
            return LedgerWrite.REFUSED
        case _:
            return LedgerWrite.ERROR


def series_key(namespace: str, series: str) -> Key:
    return Key(kind=Kind.SERIES, namespace=namespace, name=series)
