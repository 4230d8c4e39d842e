import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_operator.core.series import ledger
from disttest_operator.core.status import status
from disttest_operator.core.verdict.rule import Ending
from tests.support.builders.runs import a_report, an_ended_pod, evidence, found


def an_entry(uid: str = "u1", verdict: Verdict = Verdict.PASSED, **status_changes: object) -> ledger.Entry:
    outcomes = {"a": Outcome.PASSED, "b": Outcome.FAILED if verdict is Verdict.TESTS_FAILED else Outcome.PASSED}
    reason = Reason.CASES_FAILED if verdict is Verdict.TESTS_FAILED else Reason.ALL_CASES_PASSED
    look = evidence(an_ended_pod(0, 0), an_ended_pod(1, 0), report=found(a_report(outcomes)), seconds=25)
    last = status.finished(look, Ending(verdict=verdict, reason=reason, message="as it was"))
    return ledger.make_entry(uid=uid, name=f"run-{uid}", status=last | status_changes)


def test_a_run_adds_to_every_total() -> None:
    counted = ledger.fold({}, an_entry(), nodes=2)
    counted = ledger.fold(counted, an_entry("u2", Verdict.TESTS_FAILED), nodes=2)
    assert counted["runCount"] == 2
    assert counted["totals"]["runs"] == [
        {"verdict": "Passed", "reason": "AllCasesPassed", "count": 1},
        {"verdict": "TestsFailed", "reason": "CasesFailed", "count": 1},
    ]
    cases = {row["outcome"]: row["count"] for row in counted["totals"]["cases"]}
    assert (cases["passed"], cases["failed"], cases["hung"]) == (3, 1, 0)
    assert len(cases) == len(Outcome), "zeros too: a counter must be born at 0"
    durations = counted["totals"]["durations"]
    assert [(row["verdict"], row["sum"], row["count"]) for row in durations] == [
        ("Passed", 20.0, 1),
        ("TestsFailed", 20.0, 1),
    ]
    assert [row["count"] for row in durations[0]["buckets"]][:3] == [0, 1, 1]
    assert (counted["lastVerdict"], counted["lastSuccessTime"]) == ("TestsFailed", "2026-11-21T02:00:25Z")
    assert [run["name"] for run in counted["runs"]] == ["run-u1", "run-u2"]
    (suite,) = counted["runs"][1]["suites"]
    assert suite == {
        "name": "collectives",
        "verdict": "TestsFailed",
        "seconds": 1.5,
        "cases": {"total": 2, "passed": 1, "failed": 1},
    }


def test_counting_again_changes_nothing_while_the_entry_is_there_and_after() -> None:
    counted = ledger.fold({}, an_entry(), nodes=2)
    assert ledger.fold(counted, an_entry(), nodes=2) == counted
    settled = ledger.settle(counted, ["u1"])
    assert settled["pending"] == []
    again = ledger.fold(settled, an_entry(), nodes=2)
    assert again["totals"] == counted["totals"]
    assert again["runCount"] == 1


def test_an_entry_holds_the_terminal_status_word_by_word() -> None:
    entry = an_entry()
    kept = ledger.find_entry(ledger.fold({}, entry, nodes=2), "u1")
    assert kept is not None
    assert kept["status"] == entry["status"]
    assert (kept["verdict"], kept["reason"], kept["message"]) == ("Passed", "AllCasesPassed", "as it was")


def test_the_last_thirty_runs_are_kept() -> None:
    counted: ledger.Status = {}
    for number in range(40):
        counted = ledger.settle(ledger.fold(counted, an_entry(f"u{number}"), nodes=2), [f"u{number}"])
    assert len(counted["runs"]) == 30
    assert counted["runs"][-1]["name"] == "run-u39"
    assert counted["runCount"] == 40


def test_a_full_ledger_makes_the_next_run_wait() -> None:
    counted: ledger.Status = {}
    for number in range(ledger.PENDING):
        counted = ledger.fold(counted, an_entry(f"u{number}"), nodes=2)
    with pytest.raises(ledger.LedgerFullError):
        ledger.fold(counted, an_entry("one-more"), nodes=2)


def test_a_run_that_never_started_has_no_duration() -> None:
    entry = dict(an_entry())
    entry["status"] = {key: value for key, value in entry["status"].items() if key != "durationSeconds"}
    counted = ledger.fold({}, entry, nodes=2)
    assert counted["totals"]["durations"] == []
    assert "seconds" not in counted["runs"][0]


def test_suites_beyond_the_bound_are_not_counted_by_suite() -> None:
    counted: ledger.Status = {}
    for number in range(ledger.SUITES + 5):
        suites = [{"name": f"suite-{number}", "cases": {"passed": 1}}]
        entry = an_entry(f"u{number}", suites=suites)
        counted = ledger.settle(ledger.fold(counted, entry, nodes=1), [f"u{number}"])
    assert len({row["suite"] for row in counted["totals"]["cases"]}) == ledger.SUITES


def test_retries_are_counted_by_reason() -> None:
    counted: ledger.Status = {}
    for number, retries in enumerate([None, [("NodeLost", 1), ("Disrupted", 1)], [("NodeLost", 2)]]):
        rows = [{"reason": reason, "count": n} for reason, n in retries or ()]
        counted = ledger.fold(counted, an_entry(f"u{number}", retries=rows or None), nodes=2)
    assert counted["totals"]["retries"] == [{"reason": "NodeLost", "count": 3}, {"reason": "Disrupted", "count": 1}]


def test_reasons_of_retries_beyond_the_bound_are_not_counted() -> None:
    rows = [{"reason": f"Reason{number}", "count": 1} for number in range(ledger.RETRIES + 5)]
    counted = ledger.fold({}, an_entry(retries=rows), nodes=2)
    assert len(counted["totals"]["retries"]) == ledger.RETRIES


def test_entries_that_are_too_large_together_make_the_next_run_wait() -> None:
    long = [{"case": "c" * 512, "message": "m" * 512, "ranks": [*range(64)]}] * 40
    counted: ledger.Status = {}
    for number in range(4):
        counted = ledger.fold(counted, an_entry(f"u{number}", failures=long), nodes=2)
    with pytest.raises(ledger.LedgerFullError, match="4 runs"):
        ledger.fold(counted, an_entry("one-more", failures=long), nodes=2)
    assert ledger.fold(ledger.settle(counted, ["u1"]), an_entry("one-more", failures=long), nodes=2)["runCount"] == 5


def test_a_status_that_is_too_large_is_shortened_except_its_numbers() -> None:
    whole = an_entry()["status"]
    forged = "<" * 512  # six bytes each, as the API server writes it
    entry = an_entry(failures=[{"case": forged, "message": forged}] * 20)
    assert entry["status"]["cases"] == whole["cases"]
    assert entry["message"] == entry["status"]["message"]
    assert entry["message"].startswith("as it was (omitted because of the size limit")
