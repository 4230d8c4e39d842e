"""Cases that run again and again in the same ranks. Pure.

Every turn of a case has a number of its own: that of its place, and the number of cases more for each repetition.
"""

from dataclasses import dataclass

from disttest_contract import limits
from disttest_contract.plan import FOR_EVER, RunPlan

KEPT_CASES = 10_000  # results of repetitions that were all well, of which nobody reads more


@dataclass(frozen=True, slots=True)
class Repetition:
    """How often, and up to what."""

    times: int = 1
    until_fail: bool = False

    @classmethod
    def of(cls, plan: RunPlan) -> "Repetition":
        return cls(plan.repeat, plan.until_fail)

    @property
    def is_plain(self) -> bool:
        """Each case has one turn, and those that end badly may have another try."""
        return self.times == 1 and not self.until_fail

    def goes_on_at(self, number: int, cases: int) -> bool:
        """Whether there is a turn of that number."""
        return self.times == FOR_EVER or number < self.times * cases

    def excess(self, cases: int) -> str:
        """A sentence if a report could not hold the results. Up to the first failure only the newest are kept."""
        if self.until_fail or self.times * cases <= limits.CASES:
            return ""
        if self.times == 1:
            return too_many(cases)
        return (
            f"{cases} cases x {self.times} repetitions are more than the {limits.CASES} that a report holds: "
            f"repeat them {limits.CASES // cases} times at most, or choose fewer cases"
        )


def too_many(cases: int) -> str:
    """Said where they are collected, before any of them runs."""
    return (
        f"{cases} cases are more than the {limits.CASES} that a report holds: choose fewer with `select` or `files`, "
        "or make several runs of them"
    )


def turn_id(case_id: str, repetition: int) -> str:
    """The first repetition has the case's own id."""
    return f"{case_id}#{repetition + 1}" if repetition else case_id
