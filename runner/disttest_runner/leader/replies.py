"""One request of the leader to all agents, and what follows from their replies: a result, or the evidence for one."""

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.results.report import CaseResult
from disttest_runner.diagnosis.observation import RankObservation
from disttest_runner.protocol.wire import Message
from disttest_runner.results.blame import CaseEvidence, RankReport, WaitEnd


def read_reports(words: Mapping[str, list[str]]) -> dict[int, RankReport]:
    """Return the ranks' results from their JSON form, rank -> [outcome, message, log]."""
    return {int(rank): RankReport.read(each) for rank, each in words.items()}


def has_failed(done: Message) -> bool:
    """Whether a rank of a node that has finished a case failed; ranks of other nodes may wait for it."""
    return any(report.outcome in BAD for report in read_reports(done["ranks"]).values())


@dataclass(slots=True, kw_only=True)
class PendingRequest:
    """A request to all agents that waits for replies, with those received so far."""

    reply: str  # the op of the replies
    generation: int
    case: int | None
    deadline: float  # of the event loop's clock
    done: asyncio.Future[WaitEnd]
    by_node: dict[int, Message] = field(default_factory=dict)
    early: dict[int, RankReport] = field(default_factory=dict)
    before_exit: frozenset[int] | None = None  # ranks that had failed before the first process ended

    def record_exit(self) -> None:
        """A process ended: what had failed before may be the cause, what fails from now on may be a consequence."""
        if self.before_exit is None:
            reports = dict(self.early)
            for reply in self.by_node.values():
                reports |= read_reports(reply.get("ranks", {}))
            self.before_exit = frozenset(rank for rank, one in reports.items() if one.outcome in BAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    end: WaitEnd
    seconds: float
    by_node: dict[int, Message]
    early: dict[int, RankReport]  # ranks that failed before their node had finished
    before_exit: frozenset[int] = frozenset()


def agreed(case_id: str, replies: Replies, exits: Mapping[int, int], at: float | None = None) -> CaseResult | None:
    """Return the case's result if every rank of every node reported the same and none failed, else None."""
    if replies.end is not WaitEnd.ALL or replies.early or replies.before_exit or exits:
        return None
    each = list(replies.by_node.values())
    words = each[0].get("all")
    if words is None or any(reply.get("all") != words for reply in each):
        return None
    report = RankReport.read(words)
    if report.outcome is None or report.outcome in BAD:
        return None
    seconds = max(float(reply["seconds"]) for reply in each)
    at = None if report.outcome is Outcome.NOT_RUN else at
    return CaseResult(id=case_id, outcome=report.outcome, seconds=seconds, at=at, message=report.message)


def evidence_of(
    replies: Replies,
    exits: Mapping[int, int],
    causes: Mapping[int, str],
    *,
    logs: Mapping[int, str] = MappingProxyType({}),
    ranks_per_node: int,
) -> CaseEvidence:
    """Return what was known when waiting for the case ended."""
    reports, slowest = dict(replies.early), 0.0
    for node, reply in replies.by_node.items():
        slowest = max(slowest, float(reply["seconds"]))
        first = node * ranks_per_node
        if "all" in reply:
            same = RankReport.read(reply["all"])
            reports.update(dict.fromkeys(range(first, first + ranks_per_node), same))
        else:
            reports.update(read_reports(reply["ranks"]))
    return CaseEvidence(
        end=replies.end,
        seconds=slowest if replies.end is WaitEnd.ALL else replies.seconds,
        said=reports,
        exits=dict(exits),
        exit_causes=dict(causes),
        logs=dict(logs),
        failed_first=replies.before_exit,
    )


def observations(replies: Iterable[Message]) -> dict[int, RankObservation]:
    """Return what was observed of all ranks whose agents replied."""
    return {int(rank): RankObservation.from_json(one) for reply in replies for rank, one in reply["seen"].items()}


def with_observations(before: CaseEvidence, replies: Replies, exits: Mapping[int, int]) -> CaseEvidence:
    """Add what unfinished ranks were doing and what finished ones reported, on the nodes that replied."""
    each = replies.by_node.values()
    reports = dict(before.said)
    for reply in each:
        reports |= read_reports(reply["said"])
    logs = {int(rank): str(text) for reply in each for rank, text in reply.get("logs", {}).items()}
    return dataclasses.replace(
        before, said=reports, seen=observations(each), exits=dict(exits), logs={**before.logs, **logs}
    )
