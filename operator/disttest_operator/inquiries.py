"""What is asked of the API server when the caches do not say enough. Answers are good for a moment."""

import logging
import time
from datetime import datetime, timedelta

from disttest_contract import quarantine
from disttest_operator.core import bodies
from disttest_operator.core.evidence import QuarantineRead, Reference
from disttest_operator.core.model import DistTest
from disttest_operator.core.views import Body, EventView, NodeView
from disttest_operator.ports import Cluster, Kind, RefusedError

# What a spec may name.
NAMED = {
    "ConfigMap": Kind.CONFIG_MAP,
    "PersistentVolumeClaim": Kind.CLAIM,
    "ServiceAccount": Kind.SERVICE_ACCOUNT,
}
JOB_UID_LABEL = "batch.kubernetes.io/controller-uid"
NODES_FRESH_SECONDS = 30.0
NODES_NOW_SECONDS = 2.0  # hundreds of runs that end with a node share one list
EVENTS_FRESH_SECONDS = 2.0
PODS_FRESH = timedelta(seconds=4)  # less than the time between two looks at pods of which no watch tells

log = logging.getLogger(__name__)


class Inquiries:
    """A gang of hundreds of pods that starts makes hundreds of looks: they share the answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[str, datetime] = {}  # for the pods of which Job
        self._nodes: tuple[float, tuple[NodeView, ...]] | None = None
        self._may_list_nodes = True
        self._events: dict[tuple[str, ...], tuple[float, tuple[EventView, ...]]] = {}

    async def missing(self, namespace: str, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
        """Which of the objects that a spec names are not there."""
        found = [await self._cluster.get(NAMED[reference.kind], namespace, reference.name) for reference in references]
        return tuple(reference for reference, body in zip(references, found, strict=True) if body is None)

    async def pods_of(self, namespace: str, job_uid: str, now: datetime) -> list[Body] | None:
        """By the label of the Job controller, which loses a pod too that has it no more. None: asked just now."""
        self._asked = {uid: at for uid, at in self._asked.items() if abs(now - at) < PODS_FRESH}
        if job_uid in self._asked:
            return None
        self._asked[job_uid] = now
        listed, _ = await self._cluster.list(Kind.POD, namespace, label_selector=f"{JOB_UID_LABEL}={job_uid}")
        return [body for body in listed if bodies.owner_uid(body) == job_uid]

    async def quarantine(self, test: DistTest) -> QuarantineRead:
        """Of this attempt: the next one may find another list."""
        body = await self._cluster.get(Kind.CONFIG_MAP, test.namespace, test.spec.quarantine.config_map)
        try:
            suites = [suite.name for suite in test.spec.suites]
            return QuarantineRead(lists=quarantine.read(body, suites)) if body else QuarantineRead(problem="is gone")
        except quarantine.InvalidListError as error:
            return QuarantineRead(problem=str(error))

    async def nodes(self, *, now: bool = False) -> tuple[NodeView, ...]:
        """As they were a while ago, or `now`. None where the operator has only Roles: nodes belong to no namespace."""
        asked = time.monotonic()
        fresh_seconds = NODES_NOW_SECONDS if now else NODES_FRESH_SECONDS
        if self._nodes is None or asked - self._nodes[0] > fresh_seconds:
            self._nodes = (asked, await self._list_nodes())
        return self._nodes[1]

    async def _list_nodes(self) -> tuple[NodeView, ...]:
        try:
            listed, _ = await self._cluster.list(Kind.NODE)
        except RefusedError as error:
            if self._may_list_nodes:
                log.warning("nodes cannot be looked at, so too few GPUs and sick nodes go unnoticed: %s", error)
            self._may_list_nodes = False
            return ()
        self._may_list_nodes = True
        return tuple(bodies.node(body) for body in listed)

    async def events(self, namespace: str, uids: tuple[str, ...]) -> tuple[EventView, ...]:
        """Of each object in the order given, oldest first."""
        now = time.monotonic()
        self._events = {key: kept for key, kept in self._events.items() if now - kept[0] <= EVENTS_FRESH_SECONDS}
        if uids not in self._events:
            found: list[EventView] = []
            for uid in uids:
                selector = f"involvedObject.uid={uid}"
                listed, _ = await self._cluster.list(Kind.CORE_EVENT, namespace, field_selector=selector)
                found += [bodies.event(body) for body in sorted(listed, key=_time)]
            self._events[uids] = (now, tuple(found))
        return self._events[uids][1]


def _time(body: Body) -> str:
    return str(body.get("lastTimestamp") or body.get("eventTime") or "")
