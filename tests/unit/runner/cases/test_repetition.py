"""Cases that run again and again: which turns there are, what is kept of them, when it is enough."""

import dataclasses
from collections.abc import Mapping

import pytest

from disttest_contract import limits
from disttest_contract.gang.plan import FOR_EVER, SuitePlan
from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult
from disttest_runner.cases import collection
from disttest_runner.cases.collection import KEPT_CASES, Repetition
from disttest_runner.leader.suite_run import SuiteRun
from disttest_runner.results import verdicts

CASES = ("t.py::test_a", "t.py::test_b")
TURNS = 12  # of an endless run that a test waits for


def a_run(times: int = 1, *, until_fail: bool = False, cases: tuple[str, ...] = CASES, known: str = "") -> SuiteRun:
    plan = SuitePlan(name="mine", quarantine=(known,) if known else ())
    return SuiteRun(plan, 0, 0.0, repetition=Repetition(times, until_fail), ids=cases)


def play(run: SuiteRun, odd: Mapping[int, Outcome] | None = None, turns: int = TURNS) -> list[str]:
    """All turns, or so many; `odd` says which of them do not pass. Returns the ids of the turns."""
    ids = []
    for number in run.turns():
        run.drop_passed(number)
        ids.append(run.turn_id(number))
        outcome = (odd or {}).get(number, Outcome.PASSED)
        run.record(number, CaseResult(id=ids[-1], outcome=outcome, seconds=0.1))
        if len(ids) == turns:
            break
    return ids


def test_the_first_repetition_has_the_ids_of_the_cases_and_the_others_a_number() -> None:
    run = a_run(3)
    a, b = CASES
    assert play(run) == [a, b, f"{a}#2", f"{b}#2", f"{a}#3", f"{b}#3"]
    assert (run.done, run.total, run.note()) == (6, 6, "in 3 repetitions of 2 cases: ")


def test_without_repetition_nothing_is_said_of_it() -> None:
    run = a_run()
    assert play(run) == list(CASES)
    assert run.note() == ""


@pytest.mark.parametrize(
    ("how", "odd", "turns"),
    [
        (Repetition(3), {0: Outcome.FAILED, 3: Outcome.CRASHED}, 6),
        (Repetition(3, until_fail=True), {3: Outcome.FAILED}, 4),
        (Repetition(3, until_fail=True), {}, 6),
        (Repetition(1, until_fail=True), {0: Outcome.HUNG}, 1),
        (Repetition(FOR_EVER, until_fail=True), {6: Outcome.FAILED}, 7),
        (Repetition(FOR_EVER, until_fail=True), {0: Outcome.SKIPPED}, TURNS),
        (
            Repetition(FOR_EVER, until_fail=True),
            {0: Outcome.SKIPPED, 1: Outcome.NOT_RUN},
            2,
        ),  # else it would skip for ever
        (Repetition(FOR_EVER, until_fail=True), {}, TURNS),
    ],
)
def test_what_ends_repetition(how: Repetition, odd: Mapping[int, Outcome], turns: int) -> None:
    assert len(play(a_run(how.times, until_fail=how.until_fail), odd)) == turns


def test_a_known_failure_does_not_end_it_in_any_repetition() -> None:
    run = a_run(3, until_fail=True, known="t.py::test_b")
    assert len(play(run, {1: Outcome.FAILED, 3: Outcome.FAILED, 5: Outcome.FAILED})) == 6
    assert run.counts == Counts(by_outcome={Outcome.PASSED: 3, Outcome.FAILED: 3}, quarantined=3)


def test_a_rank_that_dies_after_its_case_ends_it_too() -> None:
    run = a_run(FOR_EVER, until_fail=True)
    turns = run.turns()
    for number in (next(turns), next(turns), next(turns)):
        run.record(number, CaseResult(id=run.turn_id(number), outcome=Outcome.PASSED, seconds=0.1))
    run.amend(dataclasses.replace(run.result(2), outcome=Outcome.CRASHED))
    assert list(turns) == []
    assert run.result(2).id == "t.py::test_a#2"


def test_failures_of_repetitions_are_not_tried_again() -> None:
    for run in (a_run(2), a_run(1, until_fail=True)):
        play(run, {0: Outcome.FAILED})
        assert run.to_rerun() == ()


def test_the_rest_of_the_repetition_did_not_run() -> None:
    run = a_run(5)
    play(run, turns=3)
    assert [(case.id, case.outcome) for case in run.unrun("why")] == [("t.py::test_b#2", Outcome.NOT_RUN)]
    run = a_run(5)
    play(run, turns=4)
    assert run.unrun("why") == []
    assert [case.id for case in a_run(5).unrun("why")] == list(CASES)


def test_it_may_be_enough_only_where_there_is_no_end_and_each_case_has_had_its_turn() -> None:
    run = a_run(FOR_EVER, until_fail=True)
    play(run, turns=1)
    assert not run.end_repetitions()
    run = a_run(FOR_EVER, until_fail=True)
    turns = run.turns()
    for number in (next(turns), next(turns)):
        run.record(number, CaseResult(id=run.turn_id(number), outcome=Outcome.PASSED, seconds=0.1))
    assert run.end_repetitions()
    assert list(turns) == []
    finite = a_run(3)
    play(finite, turns=3)
    assert not finite.end_repetitions()


def test_the_rest_of_a_repetition_names_why_it_has_no_turn() -> None:
    run = a_run(FOR_EVER, until_fail=True)
    play(run, turns=3)
    assert run.end_repetitions()
    assert run.why_ended == "the run reached its time limit during this repetition"
    run = a_run(FOR_EVER, until_fail=True)
    play(run, {2: Outcome.FAILED})
    assert run.why_ended == "the run ended at the first failure"


def test_an_endless_run_keeps_what_a_report_can_hold_and_counts_all() -> None:
    run = a_run(FOR_EVER, until_fail=True)
    last = 3 * KEPT_CASES + 4
    play(run, {last: Outcome.FAILED}, turns=last + 10)
    assert (run.done, run.dropped) == (last + 1, 3 * KEPT_CASES)
    assert run.counts == Counts(by_outcome={Outcome.PASSED: last, Outcome.FAILED: 1})
    assert run.result(last).id == f"t.py::test_a#{last // 2 + 1}"
    assert [case.id for case in run.unrun("")] == [f"t.py::test_b#{last // 2 + 1}"]
    assert run.note() == "in 15003 repetitions of 2 cases, of which the first 15000 passed and are omitted: "
    result = verdicts.finished(run.plan, seconds=1, cases=tuple(run.results), note=run.note())
    assert (result.verdict, result.reason) == (Verdict.TESTS_FAILED, Reason.CASES_FAILED)
    assert result.message.startswith(f"{run.note()}1 of 5 cases failed; first t.py::test_a#15003")


def test_more_repetitions_than_a_report_holds_are_refused_with_how_many_are_possible() -> None:
    assert Repetition(limits.CASES // 4).excess(4) == ""
    assert "Repeat them at most 25000 times" in Repetition(limits.CASES // 4 + 1).excess(4)
    assert Repetition().excess(limits.CASES) == ""
    assert Repetition().excess(10**6).startswith("1000000 cases exceed the limit of 100000 in a report. Select")
    assert Repetition(limits.CASES, until_fail=True).excess(4) == ""
    assert Repetition(FOR_EVER, until_fail=True).excess(limits.CASES) == ""


def test_the_id_of_a_turn() -> None:
    assert [collection.turn_id("t.py::test_a[#2]", n) for n in (0, 1)] == ["t.py::test_a[#2]", "t.py::test_a[#2]#2"]
