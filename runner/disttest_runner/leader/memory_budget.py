"""Limits the memory of all results in the leader: thousands of failures must not take gigabytes. Pure."""

from dataclasses import replace

from disttest_contract import limits
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import CaseResult
from disttest_runner.results import endings

DETAIL_BYTES = 16 << 20  # half of a report's limit; the log and a ConfigMap hold far less
RANK_BYTES = 16  # approximate size of one number in a list of ranks
RANKS = 64
NODES = 16
TRIMMED = (
    f"stacks, logs, messages of ranks, messages beyond {limits.FAILURE_MESSAGE_BYTES} bytes and ranks beyond {RANKS} "
    f"of failures after the first {DETAIL_BYTES >> 20} MiB of details"
)


class MemoryBudget:
    """Keeps whole results up to DETAIL_BYTES, then short ones. `trimmed` describes what is missing, if anything."""

    def __init__(self, left_bytes: int = DETAIL_BYTES) -> None:
        self._left_bytes = left_bytes
        self.trimmed = ""

    def fit(self, result: CaseResult) -> CaseResult:
        size = _size_bytes(result)
        if size <= self._left_bytes:
            self._left_bytes -= size
            return result
        short = _short(result)
        if short != result:
            self.trimmed = TRIMMED
        return short


def _size_bytes(result: CaseResult) -> int:
    """Estimate what a result takes; nothing for a case that passed."""
    if not (result.message or result.by_rank):
        return 0
    diagnosis = result.diagnosis or Diagnosis()
    texts = [
        result.message,
        *result.stacks.values(),
        *result.logs.values(),
        *diagnosis.states.values(),
        *diagnosis.native.values(),
        diagnosis.ras,
    ]
    texts += [group.message for group in result.by_rank]
    ranks = len(result.ranks) + sum(len(group.ranks) for group in result.by_rank)
    return sum(map(len, texts)) + RANK_BYTES * ranks


def _short(result: CaseResult) -> CaseResult:
    """Of a diagnosis only the summary and the path of its files stay."""
    diagnosis = result.diagnosis and Diagnosis(summary=result.diagnosis.summary, artifacts=result.diagnosis.artifacts)
    return replace(
        result,
        message=limits.cut_middle(result.message, limits.FAILURE_MESSAGE_BYTES),
        ranks=result.ranks[:RANKS],
        nodes=result.nodes[:NODES],
        by_rank=endings.without_messages(result.by_rank),
        stacks={},
        logs={},
        diagnosis=diagnosis,
    )
