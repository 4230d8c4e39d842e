"""What rules of the operator's configuration look at: lines of logs and reports, conditions of nodes and pods."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from disttest_contract import frames
from disttest_contract.report import Report
from disttest_operator.core.views import Condition, NodeView, PodView

LINE_CHARACTERS = 4096  # of a line; the rest is not looked at
WRITTEN = re.compile(rb"[^\n]+")  # a log may be millions of empty lines
OF_A_RANK = re.compile(r"\[rank (\d{1,6})\] ")
OF_THE_POD = "[zygote] "  # what begins so was written in the pod whose log it is, as a rank's line was


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`index`: the node index that it is proof against; None where it may speak of another node."""

    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A pod of the gang."""

    index: int
    pod: str
    node: str
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"pod {self.pod}" + (f" on node {self.node}" if self.node else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Of one attempt, at its end."""

    gang: tuple[Member, ...]
    lines: tuple[Line, ...] = ()
    nodes: Mapping[str, Mapping[str, Condition]] = field(default_factory=dict)  # conditions by name of node

    def member(self, index: int | None) -> Member | None:
        return next((member for member in self.gang if member.index == index), None)


def collect(pods: Iterable[PodView], nodes: Iterable[NodeView], lines: Iterable[Line]) -> Signs:
    """From what the operator keeps of pods and nodes."""
    return Signs(
        gang=tuple(Member(index=pod.index, pod=pod.name, node=pod.node, conditions=pod.conditions) for pod in pods),
        lines=tuple(lines),
        nodes={node.name: node.conditions for node in nodes},
    )


def of_log(log: bytes, index: int, ranks_per_node: int) -> Iterator[Line]:
    """Of the pod with this node index. What the runner says itself may be about any node; the report is not text.

    One after the other, and ended by newlines only: other ends of lines may be what a rank wrote.
    """
    for found in WRITTEN.finditer(log):
        raw = log[found.start() : min(found.end(), found.start() + 4 * LINE_CHARACTERS)]
        text = raw.decode(errors="replace")
        if text.startswith(frames.MARK):
            continue
        rank = OF_A_RANK.match(text)
        if rank:
            whose: int | None = int(rank[1]) // ranks_per_node
        else:
            whose = index if text.startswith(OF_THE_POD) else None
        yield Line(text=text[:LINE_CHARACTERS], index=whose)


def of_report(report: Report) -> Iterator[Line]:
    """Of cases that ended badly: a case's message is that of the first rank to blame."""
    for _, case in report.failures:
        index = case.ranks[0] // report.ranks_per_node if case.ranks else None
        for text in case.message.splitlines():
            yield Line(text=text[:LINE_CHARACTERS], index=index)
