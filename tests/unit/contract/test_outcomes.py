"""Outcomes, counts and verdicts: the rules that keep a run from being green by accident."""

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import (
    BAD,
    EXIT_CODES,
    VERDICTS_WORST_FIRST,
    WORST_FIRST,
    Counts,
    Outcome,
    Reason,
    Verdict,
    judge,
    worst,
)

P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


@pytest.mark.parametrize(
    ("said", "ranks", "expected"),
    [
        ([P, P], 2, P),
        ([P, F], 2, F),
        ([F, Outcome.CRASHED], 2, Outcome.CRASHED),
        ([Outcome.HUNG, Outcome.ERRORED], 2, Outcome.HUNG),
        ([S, S], 2, S),
        ([P, S], 2, S),
        ([P, Outcome.NOT_RUN], 2, Outcome.NOT_RUN),
        ([P, Outcome.XFAILED], 2, Outcome.XFAILED),
        ([P], 2, Outcome.CRASHED),
        ([], 2, Outcome.CRASHED),
        ([], 0, Outcome.NOT_RUN),
        ([P], 0, Outcome.NOT_RUN),
    ],
)
def test_a_case_is_as_good_as_its_worst_rank(said: list[Outcome], ranks: int, expected: Outcome) -> None:
    assert worst(said, ranks) is expected


def test_a_case_is_passed_only_if_every_rank_says_so() -> None:
    for other in set(Outcome) - {P}:
        assert worst([P, other], 2) is not P


def test_every_outcome_has_its_place() -> None:
    assert sorted(WORST_FIRST) == sorted(Outcome)
    assert set(WORST_FIRST[: len(BAD)]) == BAD


@pytest.mark.parametrize(
    ("outcomes", "verdict", "reason"),
    [
        ([P], Verdict.PASSED, Reason.ALL_CASES_PASSED),
        ([P, S, Outcome.XFAILED, Outcome.NOT_RUN], Verdict.PASSED, Reason.ALL_CASES_PASSED),
        ([], Verdict.ERRORED, Reason.NO_CASES_COLLECTED),
        ([S, S], Verdict.ERRORED, Reason.NO_CASES_PASSED),
        ([Outcome.NOT_RUN], Verdict.ERRORED, Reason.NO_CASES_PASSED),
        ([Outcome.XFAILED], Verdict.ERRORED, Reason.NO_CASES_PASSED),
        ([P, F], Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        ([P, Outcome.ERRORED], Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        ([P, F, Outcome.CRASHED], Verdict.TESTS_FAILED, Reason.CASES_CRASHED),
        ([P, F, Outcome.CRASHED, Outcome.HUNG], Verdict.HUNG, Reason.CASES_HUNG),
    ],
)
def test_what_is_not_proven_green_is_not_green(outcomes: list[Outcome], verdict: Verdict, reason: Reason) -> None:
    assert judge(Counts.of(outcomes)) == (verdict, reason)


@pytest.mark.parametrize(
    ("outcomes", "excused", "verdict", "reason"),
    [
        ([P, F], {F: 1}, Verdict.PASSED, Reason.ALL_CASES_PASSED),
        ([P, *sorted(BAD)], dict.fromkeys(BAD, 1), Verdict.PASSED, Reason.ALL_CASES_PASSED),
        ([P, F, F], {F: 1}, Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        ([P, F, Outcome.HUNG], {Outcome.HUNG: 1}, Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        ([P, F, Outcome.CRASHED], {Outcome.CRASHED: 1}, Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        ([P, F, Outcome.HUNG], {F: 1}, Verdict.HUNG, Reason.CASES_HUNG),
        ([F], {F: 1}, Verdict.ERRORED, Reason.NO_CASES_PASSED),
        ([F, S], {F: 1}, Verdict.ERRORED, Reason.NO_CASES_PASSED),
        ([P, F], {S: 1, Outcome.NOT_RUN: 1}, Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        ([], {F: 1}, Verdict.ERRORED, Reason.NO_CASES_COLLECTED),
    ],
)
def test_what_is_excused_makes_nothing_red_and_nothing_green(
    outcomes: list[Outcome], excused: dict[Outcome, int], verdict: Verdict, reason: Reason
) -> None:
    assert judge(Counts.of(outcomes), excused) == (verdict, reason)


def test_verdicts_have_a_place_and_an_exit_code_each() -> None:
    assert sorted(VERDICTS_WORST_FIRST) == sorted(Verdict)
    assert set(EXIT_CODES) == set(Verdict)
    assert [verdict for verdict, code in EXIT_CODES.items() if code == 0] == [Verdict.PASSED]


def test_there_are_not_too_many_reasons() -> None:
    assert len(Reason) <= limits.REASONS, "merge two reasons, or increase limits.REASONS and status.retries"


def test_counts_add_up_and_come_back_from_json() -> None:
    counts = Counts.sum([Counts.of([P, P, F], flaky=1, quarantined=1), Counts.of([P, S]), Counts()])
    assert (counts.total, counts[P], counts[F], counts[S], counts.bad) == (5, 3, 1, 1, 1)
    assert (counts.flaky, counts.quarantined) == (1, 1)
    assert Counts.from_json(counts.to_json()) == counts
    assert counts.to_json()["hung"] == 0


def test_counts_ignore_what_they_do_not_know() -> None:
    assert Counts.from_json({"passed": 2, "levitated": 7, "failed": "many", "hung": True}) == Counts.of([P, P])
