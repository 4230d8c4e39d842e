"""What a ledger remembers of single cases, seen through runs as the operator folds them."""

from dataclasses import replace
from typing import Any

import pytest

from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.report import CaseResult
from disttest_operator.core.series import history
from tests.support.builders.runs import a_flaky_case, a_report_of
from tests.support.builders.series import Nights, time_of

OUTCOMES = {
    "P": Outcome.PASSED,
    "F": Outcome.FAILED,
    "C": Outcome.CRASHED,
    "s": Outcome.SKIPPED,
    "n": Outcome.NOT_RUN,
    "x": Outcome.XFAILED,
    "X": Outcome.XPASSED,
}


def a_case(letter: str, name: str = "test_x") -> CaseResult:
    if letter == "f":
        return a_flaky_case(name)
    return CaseResult(id=f"t.py::{name}", outcome=OUTCOMES[letter], seconds=0.5, message="why\nnot")


def nights(letters: str, *, name: str = "test_x", before: str = "PP") -> Nights:
    """One letter a run for one case; a dot is a run without it. Another case passes always, `before` all of it too."""
    series = Nights()
    for _ in before:
        series.run(a_case("P", "test_steady"))
    for letter in letters:
        series.run(a_case("P", "test_steady"), *([] if letter == "." else [a_case(letter, name)]))
    return series


def one(series: Nights, name: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = series.ledger[name]
    [row] = rows
    return row


def test_a_case_that_fails_is_listed_with_its_streak_and_since_when() -> None:
    assert one(nights("FFC"), "failing") == {
        "case": "t.py::test_x",
        "suite": "collectives",
        "streak": 3,
        "since": time_of(2),
        "outcomes": "PFFF",
        "lastOutcome": "crashed",
        "message": "why not",
    }


@pytest.mark.parametrize(
    ("letters", "streak"),
    [
        ("F", 1),
        ("FP", 0),
        ("FPF", 1),
        ("Ff", 0),
        ("Fx", 0),
        ("FX", 0),
        ("F.F", 2),
        ("FsnF", 2),
        ("FsF.", 2),
        ("F" * 45, 45),
        ("F" + "." * 29, 1),
        ("F" + "." * 30, 0),
        ("PFF" + "." * 29 + "F", 3),
    ],
)
def test_only_a_pass_ends_a_streak_and_thirty_runs_without_the_case(letters: str, streak: int) -> None:
    series = nights(letters)
    assert [row["streak"] for row in series.ledger["failing"]] == ([streak] if streak else [])
    assert series.ledger["failingOmitted"] == 0


@pytest.mark.parametrize("verdict", [Verdict.INFRA_FAILED, Verdict.CANCELLED, Verdict.ERRORED], ids=str)
@pytest.mark.parametrize("letter", "PF")
def test_a_run_that_is_not_about_its_cases_changes_no_history(letter: str, verdict: Verdict) -> None:
    series = nights("FF")
    before = dict(series.ledger)
    series.run(a_case(letter), verdict=verdict)
    for name in ("failing", "flipping", "failingOmitted", "flippingOmitted", "flakyCases"):
        assert series.ledger[name] == before[name]


def test_of_a_run_that_met_its_deadline_the_cases_before_it_count() -> None:
    series = nights("F")
    series.run(a_case("F"), a_case("n", "test_late"), verdict=Verdict.TIMED_OUT)
    assert one(series, "failing")["streak"] == 2


@pytest.mark.parametrize(
    ("letters", "outcomes", "flips", "flaky_cases"),
    [
        ("F", "PF", 1, 0),
        ("FP", "PFP", 2, 0),
        ("FFFP", "PFFFP", 2, 0),
        ("FPF", "PFPF", 3, 1),
        ("f", "Pf", 2, 1),
        ("ff", "Pff", 4, 1),
        ("Ff", "PFf", 2, 1),
        ("F.sP", "PF..P", 2, 0),
    ],
)
def test_a_case_that_changes_is_listed_with_its_history(
    letters: str, outcomes: str, flips: int, flaky_cases: int
) -> None:
    series = nights(letters)
    row = one(series, "flipping")
    assert (row["outcomes"], row["flips"]) == (outcomes, flips)
    assert series.ledger["flakyCases"] == flaky_cases


def test_a_stable_case_is_removed_when_its_last_change_is_outside_the_window() -> None:
    assert nights("FPFP" + "P" * 28).listed("flipping") == ["t.py::test_x"]
    series = nights("FPFP" + "P" * 29)
    assert (series.ledger["flipping"], series.ledger["flakyCases"]) == ([], 0)
    broken = nights("PF" + "F" * 30)
    assert (broken.listed("flipping"), broken.listed("failing")) == ([], ["t.py::test_x"])


def test_the_last_change_has_its_time() -> None:
    assert one(nights("FFPP"), "flipping")["lastFlipTime"] == time_of(4)
    assert one(nights("FFF"), "flipping")["lastFlipTime"] == time_of(2)


def test_nothing_is_kept_of_cases_that_are_always_good() -> None:
    series = nights("PxXPP")
    assert (series.ledger["failing"], series.ledger["flipping"]) == ([], [])


def test_a_case_of_a_suite_that_never_ran_was_not_good_before() -> None:
    series = nights("FF", before="")
    assert one(series, "failing")["outcomes"] == "FF"
    assert series.ledger["flipping"] == []


def test_a_case_that_is_there_twice_is_as_good_as_its_worse_half() -> None:
    series = Nights()
    series.run(a_case("F"), a_case("P"), a_case("f"))
    assert one(series, "failing")["streak"] == 1


def test_cases_of_two_suites_with_one_name_are_two() -> None:
    series = Nights("collectives", "other")
    both = a_report_of(a_case("F"))
    [suite] = both.suites
    for second in ("F", "P"):
        other = replace(suite, name="other", cases=(a_case(second),))
        series.report(replace(both, suites=(suite, other)), verdict=Verdict.TESTS_FAILED)
    assert [(row["suite"], row["streak"]) for row in series.ledger["failing"]] == [("collectives", 2)]
    assert [(row["suite"], row["outcomes"]) for row in series.ledger["flipping"]] == [("other", "FP")]


def many(letters: str, *, first: int = 0) -> list[CaseResult]:
    return [a_case(letter, f"test_{first + number:03}") for number, letter in enumerate(letters)]


def test_the_longest_streaks_are_listed_and_the_others_counted() -> None:
    series = Nights()
    series.run(*many("F" * 10, first=100))
    series.run(*many("F" * 10, first=100), *many("F" * 60))
    assert series.listed("failing") == [f"t.py::test_{number:03}" for number in [*range(100, 110), *range(40)]]
    assert series.ledger["failingOmitted"] == 20


def test_cases_that_had_no_room_are_counted_until_they_run() -> None:
    series = Nights()
    series.run(*many("F" * 60))
    series.run(a_case("P", "test_000"))
    assert (len(series.ledger["failing"]), series.ledger["failingOmitted"]) == (49, 10)
    series.run(*many("PPPP", first=50))
    assert (len(series.ledger["failing"]), series.ledger["failingOmitted"]) == (49, 6), "at least"
    series.run(*many("F" * 60))
    assert (len(series.ledger["failing"]), series.ledger["failingOmitted"]) == (50, 10)
    series.run(*many("P" * 60))
    assert (series.ledger["failing"], series.ledger["failingOmitted"]) == ([], 0)


def test_a_streak_that_may_be_longer_is_marked() -> None:
    series = Nights()
    series.run(*many("F" * 60))
    series.run(*many("P" * 50 + "F" * 10))
    assert {(row["streak"], row["truncated"], row["outcomes"]) for row in series.ledger["failing"]} == {(1, True, "F")}
    series.run(*many("P" * 59 + "F"))
    row = one(series, "failing")
    assert (row["case"], row["streak"], row["truncated"]) == ("t.py::test_059", 2, True)
    series.run(*many("P" * 60))
    series.run(*many("F"))
    assert "truncated" not in one(series, "failing")


def test_a_streak_outlives_its_place_among_the_failing_if_it_has_one_among_the_flipping() -> None:
    series = Nights()
    series.run(*many("P" * 60))
    series.run(*many("P" * 10 + "F" * 50))
    for letter in "FPF":
        series.run(a_case(letter, "test_000"), *many("F" * 50, first=10))
    assert ("t.py::test_000" in series.listed("failing"), series.ledger["failingOmitted"]) == (False, 1)
    series.run(a_case("F", "test_000"))
    assert series.ledger["failingOmitted"] == 1
    series.run(a_case("F", "test_000"), a_case("P", "test_010"))
    [row] = [row for row in series.ledger["failing"] if row["case"] == "t.py::test_000"]
    assert (row["streak"], row["since"]) == (3, time_of(4))
    assert series.ledger["failingOmitted"] == 0


def test_flaky_cases_come_before_those_that_broke_once_however_many_these_are() -> None:
    series = Nights()
    series.run(*many("P" * 200))
    series.run(*many("F" * 150 + "f" * 3 + "P" * 47))
    assert series.listed("flipping")[:3] == [f"t.py::test_{number}" for number in (150, 151, 152)]
    assert (len(series.ledger["flipping"]), series.ledger["flippingOmitted"]) == (history.LISTED, 103)
    assert series.ledger["flakyCases"] == 3
    for _ in range(29):
        series.run(*many("P" * 200))
        assert series.ledger["flippingOmitted"] == 103
    series.run(*many("P" * 200))
    assert (series.ledger["flipping"], series.ledger["flippingOmitted"]) == ([], 0)


def test_folding_again_changes_no_history() -> None:
    series = nights("FPF")
    before = series.ledger
    series.count -= 1
    series.run(a_case("P", "test_steady"), a_case("F"))
    assert series.ledger == before
