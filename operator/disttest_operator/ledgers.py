"""Counting runs in their ledgers, each once: compare-and-swap, one at a time for a series."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from disttest_operator.caches import Caches, Key
from disttest_operator.core import actions, ledger, manifests
from disttest_operator.core.model import DistTest
from disttest_operator.core.views import Body
from disttest_operator.ports import Cluster, ClusterError, ConflictError, ExistsError, Kind

ATTEMPTS = 8  # of a compare-and-swap: others write a ledger when an operator takes over, not otherwise

log = logging.getLogger(__name__)


class Ledgers:
    """The only writer of DistTestSeries."""

    def __init__(self, cluster: Cluster, caches: Caches, clock: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._caches = caches
        self._clock = clock
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def fold(self, test: DistTest, step: actions.Fold) -> ledger.Entry | None:
        """Count the run and give the entry that holds. None: it needs no counting, it is finished or gone."""
        series = step.series
        async with self._lock(test.namespace, series):
            for _ in range(ATTEMPTS):
                body = await self._open(test.namespace, series)
                if existing := ledger.find_entry(body.get("status") or {}, test.uid):
                    return existing
                # In this order: who counted it after we read the ledger makes our write fail, and who had counted and
                # settled it before shows here.
                if not await self._is_open(test.namespace, test.name, test.uid):
                    return None
                try:
                    before = body.get("status") or {}
                    await self._write(body, ledger.fold(before, step.entry, step.results, nodes=test.spec.nodes))
                except ConflictError:
                    continue
                except ledger.LedgerFullError:
                    await self._settle(body)
                    continue
                return step.entry
        raise ClusterError(f"ledger {test.namespace}/{series}: {ATTEMPTS} writes in a row met another's; again later")

    async def settle(self, namespace: str, series: str) -> None:
        """Forget entries whose runs know their verdict, or are gone."""
        async with self._lock(namespace, series):
            body = await self._cluster.get(Kind.SERIES, namespace, series)
            if body:
                await self._settle(body)

    def _lock(self, namespace: str, series: str) -> asyncio.Lock:
        return self._locks.setdefault((namespace, series), asyncio.Lock())

    async def _settle(self, body: Body) -> None:
        status, meta = body.get("status") or {}, body["metadata"]
        uids = []
        for entry in status.get("pending") or ():
            known = self._caches.run(meta["namespace"], entry["name"])
            has_verdict = known is not None and known.test.uid == entry["uid"] and known.test.is_finished
            if has_verdict or not await self._is_open(meta["namespace"], entry["name"], entry["uid"]):
                uids.append(entry["uid"])
        if uids:
            await self._write(body, ledger.settle(status, uids))

    async def _open(self, namespace: str, series: str) -> Body:
        body = await self._cluster.get(Kind.SERIES, namespace, series)
        if body is None:
            try:
                return await self._cluster.create(Kind.SERIES, manifests.build_series(namespace, series))
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

    async def _write(self, body: Body, status: ledger.Status) -> None:
        written = await self._cluster.patch_status(Kind.SERIES, body["metadata"], status)
        if written is None:
            raise ConflictError(f"ledger {body['metadata']['name']} was deleted meanwhile")
        self._caches.put(Kind.SERIES, written, self._clock())


def series_key(namespace: str, series: str) -> Key:
    return Key(kind=Kind.SERIES, namespace=namespace, name=series)
