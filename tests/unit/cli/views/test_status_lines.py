"""A run in words, and its exit code."""

from typing import Any

import pytest

from disttest_cli import errors
from disttest_cli.errors import ExitStatus
from disttest_cli.views import status_lines
from disttest_contract.outcomes import EXIT_CODES, Verdict
from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs/operating/nightlies.md"
RED: dict[str, Any] = {
    "verdict": "TestsFailed",
    "reason": "CasesFailed",
    "message": "1 case of 3\nfailed",
    "cases": {"total": 4, "passed": 2, "failed": 1, "skipped": 1, "flaky": 1, "quarantined": 0},
    "failures": [
        {
            "suite": "collectives",
            "case": "a.py::test_x",
            "outcome": "failed",
            "ranks": [3, 11],
            "nodes": ["node1"],
            "message": "assert 1 == 2\nmore",
        },
        {"suite": "own", "case": "b.py::test_y", "outcome": "passed", "flaky": True, "message": "timed out"},
    ],
    "report": {"configMap": "a-report", "sha256": "0"},
}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, "created, not processed by an operator yet"),
        ({"phase": "Queued", "message": "2 pods\n have no node"}, "Queued: 2 pods have no node"),
        ({"phase": "Running", "attempt": 1, "message": ""}, "Running"),
        ({"phase": "Running", "attempt": 2}, "Running, attempt 2"),
    ],
    ids=repr,
)
def test_where_a_run_is_takes_one_line(status: dict[str, Any], words: str) -> None:
    assert status_lines.headline(status) == words


def test_a_long_message_is_cut() -> None:
    assert len(status_lines.headline({"phase": "Queued", "message": "x" * 5000})) < 600


def test_the_end_names_what_failed_where_and_closes_with_the_verdict() -> None:
    assert status_lines.ending(RED) == [
        "failed: collectives: a.py::test_x ranks 3,11 on node1: assert 1 == 2 more",
        "flaky: own: b.py::test_y: timed out",
        "cases: 4: 2 passed, 1 failed, 1 skipped (1 flaky)",
        "report: ConfigMap a-report",
        "TestsFailed (CasesFailed): 1 case of 3 failed",
    ]


def test_a_run_that_never_ran_has_a_verdict_only() -> None:
    status = {"verdict": "InfraFailed", "reason": "QueueTimeout", "message": "no nodes"}
    assert status_lines.ending(status) == ["InfraFailed (QueueTimeout): no nodes"]


@pytest.mark.parametrize(("verdict", "code"), [(verdict.value, int(EXIT_CODES[verdict])) for verdict in Verdict])
def test_a_verdict_has_the_exit_code_that_disttest_run_gives_it(verdict: str, code: int) -> None:
    assert errors.of_verdict(verdict) == code
    assert (code == 0) is (verdict == "Passed")


def test_a_verdict_of_a_newer_operator_is_not_green() -> None:
    assert errors.of_verdict("Excellent") != 0


def test_no_other_ending_has_the_code_of_a_verdict() -> None:
    others = {*ExitStatus, errors.SIGNALLED + 2, errors.SIGNALLED + 15}
    assert not others & {0, *EXIT_CODES.values()}


def test_the_document_has_every_exit_code() -> None:
    rows = [line.split("|")[1].strip() for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    codes = {int(code) for row in rows for code in row.split(", ") if code.isdecimal()}
    assert codes == {*EXIT_CODES.values(), *ExitStatus, errors.SIGNALLED + 2, errors.SIGNALLED + 15}


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (
            "rank 1:\n\n>   assert a\nE   AssertionError: no\nE     b\nfile.py:7: AssertionError",
            ["AssertionError: no", "b"],
        ),
        ("killed by SIGSEGV\n\n  in sleep", ["killed by SIGSEGV", "  in sleep"]),
        ("Else it would be marked", ["Else it would be marked"]),
        ("", []),
    ],
    ids=["pytest", "other", "no mark", "nothing"],
)
def test_the_gist_of_a_message_is_what_pytest_marks(message: str, lines: list[str]) -> None:
    assert status_lines.gist_of(message) == lines
