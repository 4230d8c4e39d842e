import pytest

from disttest_operator.core.series import ledger


def a_ledger(*reports: str, pending: str = "") -> ledger.Status:
    """A run for each letter: `r` has a report, `-` has none. Pending are runs by their number."""
    runs = [
        {"name": f"run-{n}", "uid": str(n), "verdict": "Passed"}
        | ({"report": f"run-{n}-report", "reportSha256": "ab"} if letter == "r" else {})
        for n, letter in enumerate("".join(reports))
    ]
    return {"runs": runs, "pending": [{"uid": uid, "name": f"run-{uid}"} for uid in pending]}


@pytest.mark.parametrize(
    ("status", "most", "expected"),
    [
        (a_ledger(), 2, []),
        (a_ledger("rr"), 2, []),
        (a_ledger("rrrr"), 2, ["0", "1"]),
        (a_ledger("rrrr"), 0, ["0", "1", "2", "3"]),
        (a_ledger("r-r--r--"), 2, ["0"]),
        (a_ledger("rrrr", pending="0"), 2, ["1"]),
        (a_ledger("rrrr", pending="3"), 2, ["0", "1"]),
    ],
    ids=[
        "no runs",
        "as many as are kept",
        "the oldest go first",
        "none is kept",
        "runs without reports do not count",
        "one that is about to be kept stays for now",
        "the newest may be about to be kept",
    ],
)
def test_all_but_the_newest_reports_are_released(status: ledger.Status, most: int, expected: list[str]) -> None:
    assert [run["uid"] for run in ledger.surplus_reports(status, most)] == expected


@pytest.mark.parametrize("keeps_reports", [True, False])
def test_a_ledger_names_a_report_that_was_stored_if_the_series_keeps_it(*, keeps_reports: bool) -> None:
    last = {"verdict": "Passed", "reason": "AllCasesPassed", "message": "ok", "completionTime": "2026-01-01T00:00:00Z"}
    stored = last | {"report": {"configMap": "nightly-report", "sha256": "ab"}}
    runs: list[ledger.Row] = []
    for status in (stored, last):
        entry = ledger.make_entry(uid="1", name="run", status=status)
        runs += ledger.fold({}, entry, nodes=1, keeps_reports=keeps_reports)["runs"]
    listed = [{key: run[key] for key in ledger.REPORT_FIELDS & run.keys()} for run in runs]
    assert listed == [{"report": "nightly-report", "reportSha256": "ab"} if keeps_reports else {}, {}]


def test_a_released_report_is_forgotten_and_the_run_is_not() -> None:
    before = a_ledger("rrr")
    after = ledger.forget_reports(before, {"1"})
    assert [run["uid"] for run in after["runs"]] == ["0", "1", "2"]
    assert after["runs"][1] == {"name": "run-1", "uid": "1", "verdict": "Passed"}
    assert (after["runs"][0], after["runs"][2]) == (before["runs"][0], before["runs"][2])


def test_runs_that_the_ledger_no_longer_lists_are_found_if_they_have_a_report() -> None:
    before = a_ledger("r-rr")
    after = {"runs": before["runs"][3:]}
    assert [run["uid"] for run in ledger.unlisted_reports(before, after)] == ["0", "2"]


def test_a_ledger_that_was_written_by_an_older_operator_lists_no_report() -> None:
    assert ledger.find_report({}, "0") is None
    assert ledger.find_report(a_ledger("-"), "0") is None
    assert ledger.surplus_reports({}, 0) == []
