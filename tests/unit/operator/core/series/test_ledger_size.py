"""A ledger stays small and a fold quick, whatever a report holds; and nothing in a report makes the ledger wrong."""

import json
import math
import time
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, Report, SuiteResult
from disttest_operator.core.series import ledger, run_results
from disttest_operator.core.status import size_limits
from tests.support.builders.runs import a_report_of, evidence, found
from tests.support.builders.series import Nights
from tests.support.fakes import openapi
from tests.support.paths import ROOT

CASES = 20_000
LEDGER_BYTES = 512 << 10  # with these cases and 16 runs pending; etcd takes 1.5 MiB
FOLD_SECONDS = 2.0  # of processor time, from the report to the ledger; it takes a tenth of that
CRD = yaml.safe_load((ROOT / "manifests/crd/disttestseries.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]


def refusals(status: Mapping[str, Any]) -> list[str]:
    return list(openapi.problems(SCHEMA, dict(status)))


def a_large_report(outcome: Outcome) -> Report:
    cases = (
        CaseResult(id=f"{number:06}{'x' * 506}", outcome=outcome, seconds=0.5, message="m" * 512)
        for number in range(CASES)
    )
    return a_report_of(*cases)


def test_twenty_thousand_cases_that_fail_and_pass_by_turns_fit_into_a_ledger() -> None:
    reports = {letter: a_large_report(outcome) for letter, outcome in (("F", Outcome.FAILED), ("P", Outcome.PASSED))}
    series = Nights()
    seconds = []
    for number in range(ledger.PENDING):
        started = time.process_time()
        series.report(reports["FP"[number % 2]], is_settled=False)
        seconds.append(time.process_time() - started)
    assert max(seconds) < FOLD_SECONDS
    assert len(series.ledger["pending"]) == ledger.PENDING
    assert len(json.dumps(series.ledger)) < LEDGER_BYTES
    assert refusals(series.ledger) == []
    assert len(series.ledger["flipping"]) == series.ledger["flakyCases"] == 50
    assert series.ledger["flippingOmitted"] == CASES - 50
    assert not any("x" * 600 in json.dumps(entry) for entry in series.ledger["pending"])


def forged(case_id: str, message: str = "", seconds: float = 1.0) -> CaseResult:
    return CaseResult(id=case_id, outcome=Outcome.FAILED, seconds=seconds, message=message)


FORGED = [
    forged(""),
    forged("a\x00b\x1b[31mred\r\nnew line\u202eback", "\x00\x1b[2J\n\t\u2028" * 5000),
    forged("a\\x00b"),
    forged("lone \ud800", "lone \udfff"),
    forged("\x07" * 100_000, "\x07" * 100_000),
    forged("\x07" * 100_001),
    forged("é" * 1000, "é" * 1000),
    forged("seconds", seconds=math.inf),
    forged("more seconds", seconds=-1e308),
    forged("nothing", seconds=math.nan),
]


def test_what_test_code_forges_is_harmless_in_the_ledger() -> None:
    series = Nights()
    for _ in range(2):
        series.run(*FORGED)
    assert refusals(series.ledger) == []
    shown = [text for row in series.ledger["failing"] for text in (row["case"], row.get("message", ""))]
    assert all(text.isprintable() for text in shown)
    assert {row["streak"] for row in series.ledger["failing"]} == {2}
    assert len(series.ledger["failing"]) == len(FORGED), "different ids stay different"
    kept = {name: value for name, value in series.ledger.items() if name != "pending"}
    json.dumps(kept, allow_nan=False).encode()


def test_of_a_report_with_far_too_many_cases_the_first_are_read() -> None:
    look = evidence(report=found(a_report_of(*(forged(f"{number:03}") for number in range(30)))))
    seen = run_results.of(look, {"verdict": "TestsFailed"}, most=10)
    assert [case for _, case in seen.bad] == [f"{number:03}" for number in range(10)]


def test_suites_that_the_run_does_not_have_are_not_believed() -> None:
    series = Nights()
    bad = SuiteResult(
        name="x" * 5000,
        verdict=Verdict.TESTS_FAILED,
        reason=Reason.CASES_FAILED,
        seconds=1.0,
        cases=(forged("t.py::test_forged"),),
    )
    honest = a_report_of(forged("t.py::test_a"))
    series.report(a_report_of(suites=(*honest.suites, bad), verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED))
    assert [(row["suite"], row["case"]) for row in series.ledger["failing"]] == [("collectives", "t.py::test_a")]


@pytest.mark.parametrize("character", ["\x00", "<", '"', "\u20ac"], ids=ascii)
def test_the_worst_ledger_fits_into_an_object(character: str) -> None:
    """Many suites, long names, pending runs that say all they may: below what etcd takes, spelt as the server does."""
    names = [f"s{number:02}{'-' * 60}" for number in range(32)]
    series = Nights(*names)
    message = character * 4096
    suites = tuple(
        SuiteResult(
            name=name,
            verdict=Verdict.TESTS_FAILED,
            reason=Reason.CASES_FAILED,
            seconds=1.0,
            message=message,
            cases=tuple(forged(f"{number}{character * 600}", message) for number in range(10)),
        )
        for name in names
    )
    report = a_report_of(suites=suites, verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED)
    suspects = [
        {"name": f"node-{number}-{'x' * 240}", "reason": "NodeLost", "evidence": "", "confirmed": False}
        for number in range(8)
    ]
    for _ in range(ledger.RUNS):
        series.report(report)
    waiting = 0
    for _ in range(6):
        try:
            series.report(report, is_settled=False, suspectNodes=suspects)
        except ledger.LedgerFullError:
            waiting += 1
    assert waiting < 5, "at least one always fits"
    assert refusals(series.ledger) == []
    assert size_limits.size(series.ledger) < 1 << 20
