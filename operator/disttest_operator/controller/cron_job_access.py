"""Whether CronJobs may be read. An operator that was upgraded without its new rights goes on without them."""

import asyncio
import logging
from collections.abc import Sequence

from disttest_operator.core.api import naming
from disttest_operator.kubernetes.ports import Cluster, ClusterError, Kind, RefusedError

LOOK_SECONDS = 300.0

log = logging.getLogger(__name__)


async def refusal(cluster: Cluster, namespaces: Sequence[str]) -> str:
    """Why CronJobs cannot be listed in one of the namespaces; nothing if they can. A refused watch would end kopf."""
    for namespace in namespaces or ("",):
        try:
            await cluster.list(Kind.CRON_JOB, namespace, label_selector=naming.LABEL_SERIES)
        except RefusedError as error:
            return str(error)
    return ""


async def wait(cluster: Cluster, namespaces: Sequence[str], *, look_seconds: float = LOOK_SECONDS) -> None:
    """Until they can be listed."""
    while True:
        await asyncio.sleep(look_seconds)
        try:
            if not await refusal(cluster, namespaces):
                log.info("CronJobs may be read now")
                return
        except ClusterError as error:
            log.warning("whether CronJobs may be read is not known: %s", error)
