"""Where all nodes say the same of a case there is nothing to judge: almost every case goes this way.

With thousands of nodes this is a third of what the leader does. Pure.
"""

from collections.abc import Mapping

from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.report import CaseResult
from disttest_runner.blame import End, Said
from disttest_runner.step import Answers


def agreed(case_id: str, answers: Answers, exits: Mapping[int, int], at: float | None = None) -> CaseResult | None:
    """What the case came to if every rank of every node said the same, and nothing bad; else None."""
    if answers.end is not End.ALL or answers.early or answers.before_exit or exits:
        return None
    each = list(answers.by_node.values())
    words = each[0].get("all")
    if words is None or any(answer.get("all") != words for answer in each):
        return None
    said = Said.read(words)
    if said.outcome is None or said.outcome in BAD:
        return None
    seconds = max(float(answer["seconds"]) for answer in each)
    at = None if said.outcome is Outcome.NOT_RUN else at
    return CaseResult(id=case_id, outcome=said.outcome, seconds=seconds, at=at, message=said.message)
