"""What results may weigh together in the leader: a run of thousands of failures must not take gigabytes. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from disttest_contract import limits
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import CaseResult, RankEnding, RankGroup

DETAIL_BYTES = 16 << 20  # half of what a report may have: the log and a ConfigMap hold far less
RANK_BYTES = 16  # of one number in a list of ranks, about
RANKS = 64
NODES = 16
SAID = (
    f"stacks, logs, messages of ranks, messages beyond {limits.FAILURE_MESSAGE_BYTES} bytes and ranks beyond {RANKS} "
    f"of what failed after the first {DETAIL_BYTES >> 20} MiB"
)


class MemoryBudget:
    """Keeps whole results until they weigh DETAIL_BYTES, then short ones. `said` has words for that, once it is so."""

    def __init__(self, left_bytes: int = DETAIL_BYTES) -> None:
        self._left_bytes = left_bytes
        self.said = ""

    def kept(self, result: CaseResult) -> CaseResult:
        size = _weight(result)
        if size <= self._left_bytes:
            self._left_bytes -= size
            return result
        short = _short(result)
        if short != result:
            self.said = SAID
        return short


def _weight(result: CaseResult) -> int:
    """Of a case that passed: none."""
    if not (result.message or result.by_rank):
        return 0
    seen = result.diagnosis or Diagnosis()
    texts = [
        result.message,
        *result.stacks.values(),
        *result.logs.values(),
        *seen.states.values(),
        *seen.native.values(),
        seen.ras,
    ]
    texts += [group.message for group in result.by_rank]
    ranks = len(result.ranks) + sum(len(group.ranks) for group in result.by_rank)
    return sum(map(len, texts)) + RANK_BYTES * ranks


def _short(result: CaseResult) -> CaseResult:
    """Of a diagnosis its sentence stays, and where the rest lies."""
    seen = result.diagnosis and Diagnosis(summary=result.diagnosis.summary, artifacts=result.diagnosis.artifacts)
    return replace(
        result,
        message=limits.cut_middle(result.message, limits.FAILURE_MESSAGE_BYTES),
        ranks=result.ranks[:RANKS],
        nodes=result.nodes[:NODES],
        by_rank=_without_messages(result.by_rank),
        stacks={},
        logs={},
        diagnosis=seen,
    )


def _without_messages(groups: Iterable[RankGroup]) -> tuple[RankGroup, ...]:
    """Those that only their messages told apart are one."""
    ranks: dict[RankEnding, list[int]] = {}
    for group in groups:
        ranks.setdefault(group.ending, []).extend(group.ranks)
    return tuple(RankGroup(ranks=tuple(sorted(each)), ending=ending) for ending, each in ranks.items())
