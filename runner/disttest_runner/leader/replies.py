"""One question of the leader to all agents, and what came back of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.results.report import CaseResult
from disttest_runner.protocol.wire import Message
from disttest_runner.results.blame import RankReport, WaitEnd


def has_failed(done: Message) -> bool:
    """Whether a rank of a node that has finished a case did so badly; ranks of other nodes may wait for it."""
    return any(RankReport.read(words).outcome in BAD for words in done["ranks"].values())


@dataclass(slots=True, kw_only=True)
class Step:
    """One question to all agents, and what has come back."""

    answer: str
    generation: int
    case: int | None
    deadline: float
    done: asyncio.Future[WaitEnd]
    by_node: dict[int, Message] = field(default_factory=dict)
    early: dict[int, RankReport] = field(default_factory=dict)
    before_exit: frozenset[int] | None = None  # ranks that had failed before the first process ended

    def note_exit(self) -> None:
        """A process ended: what had failed before may be why, what fails from now on may be a consequence."""
        if self.before_exit is None:
            told = [pair for answer in self.by_node.values() for pair in answer.get("ranks", {}).items()]
            said = self.early | {int(rank): RankReport.read(words) for rank, words in told}
            self.before_exit = frozenset(rank for rank, one in said.items() if one.outcome in BAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    end: WaitEnd
    seconds: float
    by_node: dict[int, Message]
    early: dict[int, RankReport]  # ranks that failed before their node had finished
    before_exit: frozenset[int] = frozenset()


def agreed(case_id: str, answers: Replies, exits: Mapping[int, int], at: float | None = None) -> CaseResult | None:
    """What the case came to if every rank of every node said the same, and nothing bad; else None."""
    if answers.end is not WaitEnd.ALL or answers.early or answers.before_exit or exits:
        return None
    each = list(answers.by_node.values())
    words = each[0].get("all")
    if words is None or any(answer.get("all") != words for answer in each):
        return None
    said = RankReport.read(words)
    if said.outcome is None or said.outcome in BAD:
        return None
    seconds = max(float(answer["seconds"]) for answer in each)
    at = None if said.outcome is Outcome.NOT_RUN else at
    return CaseResult(id=case_id, outcome=said.outcome, seconds=seconds, at=at, message=said.message)
