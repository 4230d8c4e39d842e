"""Looking for signs of broken hardware in what an attempt that went wrong left behind."""

import asyncio
import logging
import time
from collections.abc import Iterable

from disttest_operator.core import matching, signs
from disttest_operator.core.evidence import Observed, ReportFound, Search
from disttest_operator.core.model import DistTest
from disttest_operator.core.signs import Line
from disttest_operator.core.user_rules import UserRule
from disttest_operator.core.views import PodView
from disttest_operator.inquiries import Inquiries
from disttest_operator.ports import Cluster, ClusterError

PODS = 16  # whose logs are read: of a larger gang the leader's and the first to end are
LOG_BYTES = 4 << 20  # an agent writes no more
SEARCH_SECONDS = 5.0  # of all rules over all lines of one log

log = logging.getLogger(__name__)


class HardwareSearch:
    """By the rules of the operator's configuration, in their order."""

    def __init__(self, cluster: Cluster, inquiries: Inquiries, rules: tuple[UserRule, ...]) -> None:
        self._cluster = cluster
        self._inquiries = inquiries
        self._rules = rules

    async def over(self, test: DistTest, pods: tuple[PodView, ...], seen: Observed) -> Search:
        """What cannot be read is not searched: the attempt is judged by all else then."""
        lines = await self._telling(signs.of_report(seen.report.report)) if isinstance(seen.report, ReportFound) else []
        for pod in sorted(pods, key=_most_telling)[:PODS]:
            lines += await self._lines(test, pod)
        try:
            nodes = await self._inquiries.nodes(now=True)
        except ClusterError as error:
            log.warning("%s/%s: conditions of nodes are not looked at: %s", test.namespace, test.name, error)
            nodes = ()
        found = signs.collect(pods, nodes, lines)
        return Search(match=await asyncio.to_thread(matching.first_match, self._rules, found, _lateness()))

    async def _telling(self, lines: Iterable[Line]) -> list[Line]:
        """Those in which a rule finds something; the others are not kept."""
        return await asyncio.to_thread(lambda: list(matching.telling(self._rules, lines, _lateness())))

    async def _lines(self, test: DistTest, pod: PodView) -> list[Line]:
        if pod.is_gone or not pod.has_started:
            return []
        try:
            raw = await self._cluster.log(test.namespace, pod.name, limit_bytes=LOG_BYTES)
        except ClusterError as error:
            log.warning("%s/%s: the log of %s is not searched: %s", test.namespace, test.name, pod.name, error)
            return []
        return await self._telling(signs.of_log(raw or b"", pod.index, test.spec.ranks_per_node))


def _lateness() -> matching.IsLate:
    """Beside the loop: it may take seconds."""
    deadline = time.monotonic() + SEARCH_SECONDS
    return lambda: time.monotonic() > deadline


def _most_telling(pod: PodView) -> tuple[bool, float]:
    ended = pod.exit.at.timestamp() if pod.exit and pod.exit.at else float("inf")
    return pod.index != 0, ended
