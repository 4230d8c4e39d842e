"""The leader's part: reads what agents saw, and has them look closer at the first few hangs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from disttest_contract.diagnosis import Diagnosis
from disttest_contract.outcomes import Outcome
from disttest_contract.report import CaseResult
from disttest_runner.diagnosis.seen import Seen
from disttest_runner.switchboard import Switchboard
from disttest_runner.wire import Message

DETAILED_HANGS = 8  # of a run: looking closer takes seconds
DETAILS_SECONDS = 25.0  # py-spy, a service and a volume have their own, shorter deadlines
NATIVE_RANKS = 8  # in the report, over all nodes


def seen(answers: Iterable[Message]) -> dict[int, Seen]:
    """Of all ranks whose agents answered."""
    return {int(rank): Seen.from_json(one) for answer in answers for rank, one in answer["seen"].items()}


class CloserLook:
    """Counts the hangs of a run."""

    def __init__(self, board: Switchboard) -> None:
        self._board, self._left = board, DETAILED_HANGS

    async def at(self, suite: str, result: CaseResult) -> CaseResult:
        """The result of a hang with what takes seconds to find out. The hang itself is reported already."""
        if result.outcome is not Outcome.HUNG or self._left <= 0:
            return result
        self._left -= 1
        ranks = _most_wanted(result)
        question = {"op": "details", "suite": suite, "case_id": result.id, "ranks": ranks}
        answers = await self._board.ask(question, answer="details", seconds=DETAILS_SECONDS)
        return add(result, [answers.by_node[node] for node in sorted(answers.by_node)])


def _most_wanted(result: CaseResult) -> list[int]:
    """The culprits, then some that wait."""
    return list(dict.fromkeys([*result.ranks, *result.stacks]))[: 4 * NATIVE_RANKS]


def add(result: CaseResult, details: Sequence[Mapping[str, Any]]) -> CaseResult:
    native = {int(rank): str(text) for one in details for rank, text in one["native"].items()}
    diagnosis = replace(
        result.diagnosis or Diagnosis(),
        native=dict(list(native.items())[:NATIVE_RANKS]),
        ras=next((str(one["ras"]) for one in details if one["ras"]), ""),
        artifacts=next((str(one["artifacts"]) for one in details if one["artifacts"]), ""),
    )
    return replace(result, diagnosis=diagnosis)
