"""The label of nodes that runs blame, where the operator is told to put it on. Nothing else is done to nodes."""

import logging
from collections.abc import Iterable

from disttest_operator.caches import Caches, Series
from disttest_operator.core import naming
from disttest_operator.ports import Cluster, ClusterError, Kind

log = logging.getLogger(__name__)


class SuspectLabels:
    """Nodes have it as long as a series blames them. Works from what is there: nothing need be remembered."""

    def __init__(self, cluster: Cluster, caches: Caches) -> None:
        self._cluster = cluster
        self._caches = caches

    async def refresh(self) -> None:
        """A node that cannot be labelled keeps no run from its verdict."""
        wanted = suspects(self._caches.series())
        try:
            listed, _ = await self._cluster.list(Kind.NODE, label_selector=naming.LABEL_SUSPECT)
            labels = {body["metadata"]["name"]: body["metadata"]["labels"][naming.LABEL_SUSPECT] for body in listed}
            for name in sorted(wanted.keys() | labels.keys()):
                if wanted.get(name) != labels.get(name):
                    log.info("node %s: label %s is now %s", name, naming.LABEL_SUSPECT, wanted.get(name) or "gone")
                    await self._cluster.patch_labels(Kind.NODE, name, {naming.LABEL_SUSPECT: wanted.get(name)})
        except ClusterError as error:
            log.warning("labels of suspect nodes are not as they should be: %s", error)


def suspects(series: Iterable[Series]) -> dict[str, str]:
    """Name of the node to the reason, of all that are blamed and not cleared; of several reasons the newest."""
    rows = [row for one in series for row in one.status.get("blamedNodes") or () if "clearedTime" not in row]
    return {row["name"]: row["reason"] for row in sorted(rows, key=lambda row: row["lastTime"])}
