"""Requests to the API server for what the cache does not hold. Answers are shared for a few seconds."""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from disttest_contract.gang import quarantine
from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.hardware import matcher
from disttest_operator.core.hardware.matcher import LogLine
from disttest_operator.core.hardware.user_rules import UserRule
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.evidence import Observed, QuarantineRead, Reference, ReportFound, Search
from disttest_operator.core.observed.objects import Body, EventView, NodeView, PodView
from disttest_operator.kubernetes.ports import Cluster

# Objects that a spec can reference.
NAMED = {
    "ConfigMap": Kind.CONFIG_MAP,
    "PersistentVolumeClaim": Kind.CLAIM,
    "ServiceAccount": Kind.SERVICE_ACCOUNT,
}
JOB_UID_LABEL = "batch.kubernetes.io/controller-uid"
NODES_FRESH_SECONDS = 30.0
NODES_NOW_SECONDS = 2.0  # hundreds of runs that end with a node share one list
EVENTS_FRESH_SECONDS = 2.0
PODS_FRESH = timedelta(seconds=4)  # less than the time between two reconciles of a run with unwatched pods

log = logging.getLogger(__name__)


class Lookups:
    """Shares answers: a gang of hundreds of pods causes hundreds of reconciles when it starts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._listed: dict[str, datetime] = {}  # when the pods of a Job were listed, by its uid
        self._nodes: tuple[float, tuple[NodeView, ...]] | None = None
        self._may_list_nodes = True
        self._events: dict[tuple[str, ...], tuple[float, tuple[EventView, ...]]] = {}

    async def missing(self, namespace: str, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
        """Those of the referenced objects that do not exist."""
        found = [await self._cluster.get(NAMED[reference.kind], namespace, reference.name) for reference in references]
        return tuple(reference for reference, body in zip(references, found, strict=True) if body is None)

    async def pods_of(self, namespace: str, job_uid: str, now: datetime) -> list[Body] | None:
        """The pods with the Job controller's label, without which it drops them. None: they were listed just now."""
        self._listed = {uid: at for uid, at in self._listed.items() if abs(now - at) < PODS_FRESH}
        if job_uid in self._listed:
            return None
        self._listed[job_uid] = now
        listed = await self._cluster.list(Kind.POD, namespace, label_selector=f"{JOB_UID_LABEL}={job_uid}")
        return [body for body in listed if decoding.owner_uid(body) == job_uid]

    async def quarantine(self, test: DistTest) -> QuarantineRead:
        """The quarantine lists for this attempt; the ConfigMap may change before the next one."""
        body = await self._cluster.get(Kind.CONFIG_MAP, test.namespace, test.spec.quarantine.config_map)
        try:
            suites = [suite.name for suite in test.spec.suites]
            return QuarantineRead(lists=quarantine.read(body, suites)) if body else QuarantineRead(problem="is gone")
        except quarantine.InvalidListError as error:
            return QuarantineRead(problem=str(error))

    async def nodes(self, *, now: bool = False) -> tuple[NodeView, ...]:
        """The nodes, up to 30 s old, with `now` 2 s. Empty if the operator has only Roles: nodes have no namespace."""
        current = time.monotonic()
        fresh_seconds = NODES_NOW_SECONDS if now else NODES_FRESH_SECONDS
        if self._nodes is None or current - self._nodes[0] > fresh_seconds:
            self._nodes = (current, await self._list_nodes())
        return self._nodes[1]

    async def _list_nodes(self) -> tuple[NodeView, ...]:
        try:
            listed = await self._cluster.list(Kind.NODE)
        except RequestRefusedError as error:
            if self._may_list_nodes:
                log.warning("nodes cannot be listed, so too few GPUs and unhealthy nodes are not detected: %s", error)
            self._may_list_nodes = False
            return ()
        self._may_list_nodes = True
        return tuple(decoding.node(body) for body in listed)

    async def events(self, namespace: str, uids: tuple[str, ...]) -> tuple[EventView, ...]:
        """The events of each object in the order of `uids`, oldest first."""
        now = time.monotonic()
        self._events = {key: kept for key, kept in self._events.items() if now - kept[0] <= EVENTS_FRESH_SECONDS}
        if uids not in self._events:
            found: list[EventView] = []
            for uid in uids:
                selector = f"involvedObject.uid={uid}"
                listed = await self._cluster.list(Kind.CORE_EVENT, namespace, field_selector=selector)
                found += [decoding.event(body) for body in sorted(listed, key=_time)]
            self._events[uids] = (now, tuple(found))
        return self._events[uids][1]


def _time(body: Body) -> str:
    return str(body.get("lastTimestamp") or body.get("eventTime") or "")


SEARCHED_PODS = 16  # of a larger gang the leader, and those that ended first
LOG_BYTES = 4 << 20  # an agent limits its log to this
SEARCH_SECONDS = 5.0  # for all rules in one log


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareSearch:
    """Searches logs and nodes for signs of broken hardware, by the configured rules in their order."""

    cluster: Cluster
    lookups: Lookups
    rules: tuple[UserRule, ...]

    async def search(self, test: DistTest, pods: tuple[PodView, ...], seen: Observed) -> Search:
        """Skips what cannot be read: the verdict on the attempt is then made without it."""
        lines = (
            await self._matching(matcher.of_report(seen.report.report)) if isinstance(seen.report, ReportFound) else []
        )
        for pod in sorted(pods, key=_search_order)[:SEARCHED_PODS]:
            lines += await self._lines(test, pod)
        try:
            nodes = await self.lookups.nodes(now=True)
        except ApiServerError as error:
            log.warning("%s/%s: conditions of nodes cannot be checked: %s", test.namespace, test.name, error)
            nodes = ()
        found = matcher.collect(pods, nodes, lines)
        return Search(match=await asyncio.to_thread(matcher.first_match, self.rules, found, _lateness()))

    async def _matching(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """Only the lines that a rule matches, to save memory."""
        return await asyncio.to_thread(lambda: list(matcher.matching_lines(self.rules, lines, _lateness())))

    async def _lines(self, test: DistTest, pod: PodView) -> list[LogLine]:
        if pod.is_gone or not pod.has_started:
            return []
        try:
            raw = await self.cluster.log(test.namespace, pod.name, limit_bytes=LOG_BYTES)
        except ApiServerError as error:
            log.warning("%s/%s: the log of %s cannot be searched: %s", test.namespace, test.name, pod.name, error)
            return []
        return await self._matching(matcher.of_log(raw or b"", pod.index, test.spec.ranks_per_node))


def _lateness() -> matcher.IsLate:
    deadline = time.monotonic() + SEARCH_SECONDS
    return lambda: time.monotonic() > deadline


def _search_order(pod: PodView) -> tuple[bool, float]:
    ended = pod.exit.at.timestamp() if pod.exit and pod.exit.at else float("inf")
    return pod.index != 0, ended
