"""A suite in progress: what is recorded, amended, tried again."""

import dataclasses

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, Earlier, SuiteResult
from disttest_runner.leader import progress_log
from disttest_runner.leader.suite_run import MAX_RERUN, SuiteRun, again
from disttest_runner.results import verdicts

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
    assert progress_log.case_line("s", 1, 1, flaky).endswith("(rerun 1: failed before)")
    suite = verdicts.finished(SuitePlan(name="s"), seconds=1, cases=(flaky, PASSED))
    assert (suite.verdict, suite.reason, suite.counts.flaky) == (Verdict.PASSED, Reason.ALL_CASES_PASSED, 1)
    assert suite.message == "2 of 2 cases passed, 1 of them only in a rerun, first t.py::test_a"
    assert "1 of them only in a rerun" in verdicts.of_run([suite], None).message
    assert SuiteResult.from_json(suite.to_json()) == suite


def a_quarantined_run(*patterns: str) -> SuiteRun:
    run = SuiteRun(SuitePlan(name="mine", quarantine=patterns), 0, 0.0)
    run.ids = ("t.py::test_a", "t.py::test_b")
    return run


def test_known_failures_are_marked_counted_and_not_tried_again() -> None:
    run = a_quarantined_run("t.py::test_a")
    run.record(0, FAILED)
    run.record(1, dataclasses.replace(FAILED, id="t.py::test_b"))
    assert [result.quarantined for result in run.results] == [True, False]
    assert run.counts == Counts.of([Outcome.FAILED] * 2, quarantined=1)
    assert run.to_rerun() == (1,)


def test_the_mark_stays_when_a_result_is_amended_and_when_a_case_has_no_turn() -> None:
    run = a_quarantined_run("*")
    run.record(0, PASSED)
    run.amend(CRASHED)
    assert (run.results[0].is_excused, run.counts.quarantined) == (True, 1)
    assert [result.quarantined for result in run.unrun("gone")] == [True]


def test_many_known_failures_do_not_keep_others_from_another_try() -> None:
    run = a_run(MAX_RERUN + 1)
    run = dataclasses.replace(run, plan=SuitePlan(name="mine", quarantine=("t.py::known*",)))
    for number in range(MAX_RERUN):
        run.record(number, dataclasses.replace(FAILED, id=f"t.py::known_{number}"))
    run.record(MAX_RERUN, FAILED)
    assert run.to_rerun() == (MAX_RERUN,)


GOOD = dataclasses.replace(PASSED, id="t.py::test_good")
KNOWN = dataclasses.replace(CRASHED, id="t.py::test_known", quarantined=True)
RED = dataclasses.replace(FAILED, id="t.py::test_red")


@pytest.mark.parametrize(
    ("cases", "verdict", "message"),
    [
        ((GOOD, KNOWN), Verdict.PASSED, "1 of 2 cases passed, 1 quarantined failure"),
        ((KNOWN, GOOD, KNOWN), Verdict.PASSED, "1 of 3 cases passed, 2 quarantined failures"),
        (
            (KNOWN, GOOD, RED),
            Verdict.TESTS_FAILED,
            "1 of 3 cases failed, 1 quarantined failure; first t.py::test_red: rank 1 on n: no",
        ),
        ((KNOWN,), Verdict.ERRORED, "none of 1 cases passed, 1 quarantined failure; the first was crashed: "),
    ],
)
def test_every_verdict_reports_quarantined_failures(
    cases: tuple[CaseResult, ...], verdict: Verdict, message: str
) -> None:
    suite = verdicts.finished(SuitePlan(name="s", quarantine=("*known",)), seconds=1, cases=cases)
    assert suite.verdict is verdict
    assert suite.message.startswith(message)
    assert "quarantined failure" in verdicts.of_run([suite], None).message


@pytest.mark.parametrize(
    ("patterns", "advice"),
    [
        (("*known",), ""),
        (("*known", "*absent"), "warning: quarantine patterns that match no case: *absent"),
        (("t.py::test_good",), "quarantine patterns to remove, because their cases pass: t.py::test_good"),
        (("t.py::*",), ""),  # one of them still fails
        (("t.py::test_skipped",), ""),  # unknown whether it is fixed
        (("t.py::test_flaky",), ""),
        (
            ("a", "b", "c", "d", "e", "f", "*good"),
            (
                "warning: quarantine patterns that match no case: a, b, c, d, e and 1 more; "
                "quarantine patterns to remove, because their cases pass: *good"
            ),
        ),
    ],
)
def test_patterns_that_are_not_needed_are_reported(patterns: tuple[str, ...], advice: str) -> None:
    skipped = dataclasses.replace(SKIPPED, id="t.py::test_skipped")
    flaky = dataclasses.replace(again(FAILED, PASSED), id="t.py::test_flaky")
    cases = (GOOD, KNOWN, skipped, flaky)
    assert verdicts.quarantine_advice(patterns, cases) == advice
    suite = verdicts.finished(SuitePlan(name="s", quarantine=patterns), seconds=1, cases=cases)
    assert suite.message.endswith(f"; {advice}" if advice else "quarantined failure")


def test_the_line_of_a_known_failure_says_that_it_is_one() -> None:
    assert progress_log.case_line("s", 1, 1, KNOWN).splitlines()[0].endswith("(in quarantine)")
