"""A suite in progress: what is recorded, amended, tried again."""

import dataclasses

import pytest

from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict
from disttest_contract.plan import SuitePlan
from disttest_contract.report import CaseResult, Earlier, SuiteResult
from disttest_runner import progress, verdicts
from disttest_runner.suite_run import MAX_RERUN, SuiteRun, again

PASSED = CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=0.1)
FAILED = dataclasses.replace(PASSED, outcome=Outcome.FAILED, message="rank 1 on n: no", ranks=(1,), nodes=("n",))
CRASHED = dataclasses.replace(PASSED, outcome=Outcome.CRASHED, message="rank 0 on m: SIGSEGV", ranks=(0,))
SKIPPED = dataclasses.replace(PASSED, outcome=Outcome.SKIPPED)
NOT_RUN = dataclasses.replace(PASSED, outcome=Outcome.NOT_RUN)
FAILED_BEFORE = Earlier(outcome=Outcome.FAILED, seconds=0.1, message="rank 1 on n: no", ranks=(1,), nodes=("n",))


def a_run(cases: int = 2) -> SuiteRun:
    run = SuiteRun(SuitePlan(name="mine"), 0, 0.0)
    run.ids = tuple(f"t.py::test_{n}" for n in range(cases))
    return run


@pytest.mark.parametrize(
    ("tries", "outcome", "earlier"),
    [
        ((FAILED, PASSED), Outcome.PASSED, (Outcome.FAILED,)),
        ((CRASHED, PASSED), Outcome.PASSED, (Outcome.CRASHED,)),
        ((FAILED, FAILED), Outcome.FAILED, (Outcome.FAILED,)),
        ((FAILED, CRASHED, PASSED), Outcome.PASSED, (Outcome.FAILED, Outcome.CRASHED)),
        ((FAILED, SKIPPED), Outcome.FAILED, ()),
        ((FAILED, NOT_RUN), Outcome.FAILED, ()),
    ],
)
def test_the_last_try_that_says_something_counts_and_the_others_are_kept(
    tries: tuple[CaseResult, ...], outcome: Outcome, earlier: tuple[Outcome, ...]
) -> None:
    result = tries[0]
    for another in tries[1:]:
        result = again(result, another)
    assert (result.outcome, result.is_flaky) == (outcome, outcome is Outcome.PASSED)
    assert tuple(one.outcome for one in result.earlier) == earlier


def test_counts_follow_reruns_and_amendments() -> None:
    run = a_run()
    run.record(0, FAILED)
    run.record(1, PASSED)
    assert run.counts == Counts.of([Outcome.FAILED, Outcome.PASSED])
    run.record(0, PASSED)
    assert run.counts == Counts.of([Outcome.PASSED] * 2, flaky=1)
    assert run.results[0].earlier == (FAILED_BEFORE,)
    run.amend(CRASHED)  # the rank died after it had said passed
    assert run.counts == Counts.of([Outcome.CRASHED, Outcome.PASSED])
    assert run.results[0].earlier == (FAILED_BEFORE,)
    assert run.needs_gang


def test_many_bad_cases_are_not_tried_again() -> None:
    run = a_run(MAX_RERUN + 1)
    for number in range(MAX_RERUN):
        run.record(number, FAILED)
    assert run.to_rerun() == tuple(range(MAX_RERUN))
    run.record(MAX_RERUN, FAILED)
    assert run.to_rerun() == ()


def test_a_flaky_case_is_said_wherever_people_look() -> None:
    flaky = again(FAILED, PASSED)
    assert progress.case_line("s", 1, 1, flaky).endswith("(try 2: failed before)")
    suite = verdicts.finished("s", seconds=1, cases=(flaky, PASSED))
    assert (suite.verdict, suite.reason, suite.counts.flaky) == (Verdict.PASSED, Reason.ALL_CASES_PASSED, 1)
    assert suite.message == "2 of 2 cases passed, 1 of them at another try only, first t.py::test_a"
    assert "1 of them at another try only" in verdicts.of_run([suite], None).message
    assert SuiteResult.from_json(suite.to_json()) == suite
