"""How a series fares. Runs that say nothing about the code, ours or theirs, are left out."""

from collections.abc import Iterable

from disttest_contract.outcomes import Verdict

NOT_ABOUT_CODE = frozenset({Verdict.INFRA_FAILED, Verdict.CANCELLED})


def streak(before: int, verdict: str) -> int:
    """So many runs in a row passed; negative: did not."""
    if verdict in NOT_ABOUT_CODE:
        return before
    return max(before, 0) + 1 if verdict == Verdict.PASSED else min(before, 0) - 1


def pass_rate_percent(verdicts: Iterable[str]) -> int | None:
    """Rounded down, so that 100 means all. None: there is no run to tell by."""
    counted = [verdict for verdict in verdicts if verdict not in NOT_ABOUT_CODE]
    return 100 * counted.count(Verdict.PASSED) // len(counted) if counted else None
