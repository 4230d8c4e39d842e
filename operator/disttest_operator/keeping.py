"""Reports that outlive their runs: whose a report is, and nothing else, decides when it goes.

A report belongs to its run. The series becomes its second owner before the run shows a verdict: the garbage collector
takes what has no owner left, so it stays when the run goes. To let it go the operator gives it back to the run: with
the run it stays or goes, and if that has gone already the collector takes it at once. So the operator deletes nothing
itself, and need not know whether the run is still there.
"""

import logging
from collections.abc import Iterable

from disttest_operator.caches import Caches
from disttest_operator.core import keeping, manifests, naming
from disttest_operator.core.model import DistTest, Manifest
from disttest_operator.core.views import Body
from disttest_operator.ports import Cluster, Kind, RefusedError

log = logging.getLogger(__name__)


class Keeping:
    """Of the newest `most` reports of each series. An operator that may not write ConfigMaps says so once."""

    def __init__(self, cluster: Cluster, caches: Caches, *, most: int) -> None:
        self._cluster = cluster
        self._caches = caches
        self.most = most
        self._is_refused = False  # and it was said

    async def keep(self, test: DistTest) -> None:
        """Nothing that its ledger does not list; a run that is gone took its report along."""
        series = self._caches.find_series(test.namespace, naming.series(test))
        run = keeping.find(series.status, test.uid) if series else None
        body = await self._find(test.namespace, run) if run else None
        if series is None or body is None or _owns(body, series.uid):
            return
        owners = [manifests.owner(test), manifests.series_owner(series.name, series.uid)]
        await self._give(test.namespace, body, owners)

    async def give_back(self, series: Body, runs: Iterable[keeping.Run]) -> set[str]:
        """The reports of these runs; the uids of those that are the series' no more."""
        namespace, uids = series["metadata"]["namespace"], set()
        for run in runs:
            body = await self._find(namespace, run)
            if body and _owns(body, series["metadata"]["uid"]):
                owners = [manifests.run_owner(run["name"], run["uid"])]
                if not await self._give(namespace, body, owners):
                    break
            uids.add(run["uid"])
        return uids

    async def _find(self, namespace: str, run: keeping.Run) -> Body | None:
        """A ConfigMap of the name may be somebody else's."""
        body = await self._cluster.get(Kind.CONFIG_MAP, namespace, run["report"], only_metadata=True)
        labels = (body["metadata"].get("labels") or {}) if body else {}
        return body if labels.get(naming.LABEL_UID) == run["uid"] else None

    async def _give(self, namespace: str, body: Body, owners: list[Manifest]) -> bool:
        try:
            await self._cluster.patch_owners(Kind.CONFIG_MAP, body["metadata"], owners)
        except RefusedError as error:
            if not self._is_refused:
                words = (
                    "%s: owners of reports cannot be changed (manifests/rbac/runs), so they go with their owners: %s"
                )
                log.warning(words, namespace, error)
            self._is_refused = True
            return False
        return True


def _owns(body: Body, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in body["metadata"].get("ownerReferences") or ())
