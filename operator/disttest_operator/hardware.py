"""Looking for signs of broken hardware in what an attempt that went wrong left behind."""

import asyncio
import functools
import logging
import time

from disttest_operator.core import matching, signs
from disttest_operator.core.evidence import Observed, ReportFound, Search
from disttest_operator.core.model import DistTest
from disttest_operator.core.signs import Line
from disttest_operator.core.user_rules import UserRule
from disttest_operator.core.views import PodView
from disttest_operator.inquiries import Inquiries
from disttest_operator.ports import Cluster, ClusterError

PODS = 16  # whose logs are read: of a larger gang the leader's and the first to end are
LOG_BYTES = 4 << 20  # an agent writes no more, but for the report
SEARCH_SECONDS = 5.0  # of all rules over all lines

log = logging.getLogger(__name__)


class HardwareSearch:
    """By the rules of the operator's configuration, in their order."""

    def __init__(self, cluster: Cluster, inquiries: Inquiries, rules: tuple[UserRule, ...]) -> None:
        self._cluster = cluster
        self._inquiries = inquiries
        self._rules = rules

    async def over(self, test: DistTest, pods: tuple[PodView, ...], seen: Observed) -> Search:
        """What cannot be read is not searched: the attempt is judged by all else then."""
        lines = list(signs.of_report(seen.report.report)) if isinstance(seen.report, ReportFound) else []
        for pod in sorted(pods, key=_most_telling)[:PODS]:
            lines += await self._lines(test, pod)
        try:
            nodes = await self._inquiries.nodes(now=True)
        except ClusterError as error:
            log.warning("%s/%s: conditions of nodes are not looked at: %s", test.namespace, test.name, error)
            nodes = ()
        deadline = time.monotonic() + SEARCH_SECONDS
        find = functools.partial(matching.first_match, self._rules, signs.collect(pods, nodes, lines))
        return Search(match=await asyncio.to_thread(find, lambda: time.monotonic() > deadline))

    async def _lines(self, test: DistTest, pod: PodView) -> list[Line]:
        if pod.is_gone or not pod.has_started:
            return []
        try:
            text = await self._cluster.log(test.namespace, pod.name, limit_bytes=LOG_BYTES)
        except ClusterError as error:
            log.warning("%s/%s: the log of %s is not searched: %s", test.namespace, test.name, pod.name, error)
            return []
        return list(signs.of_log(text or "", pod.index, test.spec.ranks_per_node))


def _most_telling(pod: PodView) -> tuple[bool, float]:
    ended = pod.exit.at.timestamp() if pod.exit and pod.exit.at else float("inf")
    return pod.index != 0, ended
