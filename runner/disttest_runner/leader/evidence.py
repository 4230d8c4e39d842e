"""From what agents answered to the evidence on a case. No I/O, no clock."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import CaseResult
from disttest_runner.diagnosis.observation import RankObservation
from disttest_runner.leader.agent_connections import AgentConnections
from disttest_runner.leader.replies import Replies
from disttest_runner.protocol.wire import Message
from disttest_runner.results.blame import CaseEvidence, RankReport, WaitEnd

CLOSE_LOOKS = 3  # of a run: C frames and NCCL's status take seconds, and later hangs are mostly like the first
WRITTEN_HANGS = 50  # of a run, where there is a directory for it
DETAILS_SECONDS = 40.0  # py-spy, a service and a volume have their own, shorter deadlines
CULPRITS = 2  # whose C frames are looked at, and one that waits for them


def seen_by_agents(answers: Iterable[Message]) -> dict[int, RankObservation]:
    """Of all ranks whose agents answered."""
    return {int(rank): RankObservation.from_json(one) for answer in answers for rank, one in answer["seen"].items()}


class CloserLook:
    """Counts the hangs of a run. `writes`: there is a directory for whole dumps."""

    def __init__(self, board: AgentConnections, *, writes: bool) -> None:
        self._board, self._writes = board, writes
        self._hangs = 0

    async def at(self, suite: str, result: CaseResult) -> CaseResult:
        """The result of a hang with what takes seconds to find out. The hang itself is reported already."""
        if result.outcome is not Outcome.HUNG:
            return result
        self._hangs += 1
        is_close = self._hangs <= CLOSE_LOOKS
        if not is_close and not (self._writes and self._hangs <= WRITTEN_HANGS):
            return result
        ranks = _most_wanted(result) if is_close else []
        question = {"op": "details", "suite": suite, "case_id": result.id, "close": is_close, "ranks": ranks}
        answers = await self._board.ask(question, answer="details", seconds=DETAILS_SECONDS)
        return add(result, [answers.by_node[node] for node in sorted(answers.by_node)])


def _most_wanted(result: CaseResult) -> list[int]:
    """Culprits that have not finished, then one that waits."""
    culprits = [rank for rank in result.ranks if rank in result.stacks][:CULPRITS]
    return [*culprits, *[rank for rank in result.stacks if rank not in result.ranks][:1]]


def add(result: CaseResult, details: Sequence[Mapping[str, Any]]) -> CaseResult:
    native = {int(rank): str(text) for one in details for rank, text in one["native"].items()}
    diagnosis = replace(
        result.diagnosis or Diagnosis(),
        native=dict(list(native.items())[: CULPRITS + 1]),
        ras=next((str(one["ras"]) for one in details if one["ras"]), ""),
        artifacts=next((str(one["artifacts"]) for one in details if one["artifacts"]), ""),
    )
    return replace(result, diagnosis=diagnosis)


def evidence_of(
    answers: Replies, exits: Mapping[int, int], causes: Mapping[int, str], *, ranks_per_node: int
) -> CaseEvidence:
    """As it was when waiting for the case ended."""
    said, slowest = dict(answers.early), 0.0
    for node, answer in answers.by_node.items():
        slowest = max(slowest, float(answer["seconds"]))
        first = node * ranks_per_node
        if "all" in answer:
            same = RankReport.read(answer["all"])
            said.update(dict.fromkeys(range(first, first + ranks_per_node), same))
        else:
            said.update({int(rank): RankReport.read(words) for rank, words in answer["ranks"].items()})
    return CaseEvidence(
        end=answers.end,
        seconds=slowest if answers.end is WaitEnd.ALL else answers.seconds,
        said=said,
        exits=dict(exits),
        exit_causes=dict(causes),
        failed_first=answers.before_exit,
    )


def with_stacks(before: CaseEvidence, answers: Replies, exits: Mapping[int, int]) -> CaseEvidence:
    """What unfinished ranks were doing, and what finished ones said. A node that did not answer is left out."""
    each = answers.by_node.values()
    more = {int(rank): RankReport.read(words) for answer in each for rank, words in answer["said"].items()}
    return dataclasses.replace(before, said={**before.said, **more}, seen=seen_by_agents(each), exits=dict(exits))
