"""What a run tells its ledger beyond its terminal status: how each case went, what was measured, on which nodes.

A report is written next to the code under test, which can forge it: names are cut and made harmless here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from disttest_contract import gist, limits
from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.report import CaseResult, Report
from disttest_operator.core import measured, record, shown
from disttest_operator.core.evidence import Evidence, ReportFound
from disttest_operator.core.measured import Points

CaseKey = tuple[str, str]  # suite, id

# Verdicts that say something about single cases; of a run that was stopped by its deadline the cases before it count.
ABOUT_CASES = frozenset({Verdict.PASSED, Verdict.TESTS_FAILED, Verdict.HUNG, Verdict.TIMED_OUT})
CASES = 100_000  # of a report that are looked at: a forged one may have millions, and the operator has more to do
MESSAGE_BYTES = 256


class Letter(StrEnum):
    """One run in the history of a case."""

    GOOD = "P"
    BAD = "F"
    FLAKY = "f"  # it failed, and passed when it was tried again
    ABSENT = "."  # skipped, not reached, not chosen


# What is not here says nothing about the case: skipped and not run.
LETTERS = {
    Outcome.PASSED: Letter.GOOD,
    Outcome.XFAILED: Letter.GOOD,  # as its suite expects
    Outcome.XPASSED: Letter.GOOD,  # it works
    **dict.fromkeys(BAD, Letter.BAD),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A case that was bad, if only at first. `told` is its message as the report has it."""

    letter: Letter
    outcome: Outcome
    told: str

    @property
    def message(self) -> str:
        """Harmless, short and on one line."""
        return shown.line(gist.short(self.told[: limits.MESSAGE_BYTES]), MESSAGE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A case that is in neither of the two did not run."""

    troubles: Mapping[CaseKey, Trouble] = field(default_factory=dict)
    good: frozenset[CaseKey] = frozenset()
    nodes: frozenset[str] = frozenset()
    queue: str = ""  # that the run waited in
    points: Points = field(default_factory=Points)
    hangs: Mapping[str, int] = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_cases(self) -> bool:
        return bool(self.troubles or self.good)


NOTHING = Results()


def of(evidence: Evidence, status: Mapping[str, Any], *, most: int = CASES) -> Results:
    """Of a run that has come to this terminal status."""
    nodes, queue = _nodes(evidence, status), evidence.test.spec.queue_name
    if not isinstance(evidence.report, ReportFound) or status["verdict"] not in ABOUT_CASES:
        return Results(nodes=nodes, queue=queue)
    report, suites = evidence.report.report, {suite.name for suite in evidence.test.spec.suites}
    troubles: dict[CaseKey, Trouble] = {}
    good: set[CaseKey] = set()
    for suite, case in islice(_cases(report), most):
        letter = _letter(case)
        if suite not in suites or letter is Letter.ABSENT:
            continue
        key = (suite, shown.case_id(case.id))
        if letter is Letter.GOOD:
            good.add(key)
        elif key not in troubles or letter is Letter.BAD:  # an id that comes twice is as good as its worse half
            troubles[key] = Trouble(letter=letter, outcome=case.outcome, told=case.message)
    return Results(
        troubles=troubles,
        good=frozenset(good - troubles.keys()),
        nodes=nodes,
        queue=queue,
        points=measured.points(report, evidence.test.spec.thresholds),
        hangs={suite: count for suite, count in measured.hangs(report).items() if suite in suites},
        made_with=measured.made_with(report),
    )


def _cases(report: Report) -> Iterator[tuple[str, CaseResult]]:
    return ((suite.name, case) for suite in report.suites for case in suite.cases)


def _letter(case: CaseResult) -> Letter:
    return Letter.FLAKY if case.is_flaky else LETTERS.get(case.outcome, Letter.ABSENT)


def _nodes(evidence: Evidence, status: Mapping[str, Any]) -> frozenset[str]:
    """Of the last attempt, by what Kubernetes says, not by what the report does. A record names only the first ones."""
    attempts = status.get("attempts") or ()
    named = attempts[-1].get("nodes") or () if attempts else ()
    if named and len(named) < record.NODES:
        return frozenset(named)
    return frozenset((*named, *(pod.node for pod in evidence.pods if pod.node)))
