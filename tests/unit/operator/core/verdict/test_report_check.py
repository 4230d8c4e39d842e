import dataclasses
import hashlib
import json

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import InvalidReportError, Report
from disttest_operator.core.api.model import Retries
from disttest_operator.core.observed.objects import ContainerExit
from disttest_operator.core.verdict.report_check import conclusion, read_report
from tests.support.builders.runs import (
    UID,
    a_flaky_case,
    a_report,
    a_report_of,
    a_spec,
    a_suite,
    a_summary,
    a_test,
    found,
)


def announced(report: Report, code: int = 0) -> ContainerExit:
    return ContainerExit(code=code, summary=a_summary(report_sha256=found(report).sha256))


def claims_passed(**changes: object) -> Report:
    return dataclasses.replace(a_report(), verdict=Verdict.PASSED, **changes)  # type: ignore[arg-type]  # a table's row


FORGED = {
    "no cases": (claims_passed(suites=()), "its cases give Errored (NoCasesCollected)"),
    "a failed case": (
        claims_passed(suites=(a_suite("collectives", {"a": Outcome.PASSED, "b": Outcome.FAILED}),)),
        "its cases give TestsFailed",
    ),
    "only skipped cases": (claims_passed(suites=(a_suite("collectives", {"a": Outcome.SKIPPED}),)), "NoCasesPassed"),
    "another suite": (claims_passed(suites=(a_suite("mine", {"a": Outcome.PASSED}),)), "for suites ['mine']"),
    "an empty second suite": (
        claims_passed(suites=(a_suite("collectives", {"a": Outcome.PASSED}), a_suite("b", {}))),
        "for suites ['collectives', 'b']",
    ),
    "a smaller world": (claims_passed(nodes=1), "but the run has (2, 2, 'gloo')"),
    "no ranks": (claims_passed(ranks_per_node=0), "but the run has (2, 2, 'gloo')"),
    "red without a red case": (a_report(verdict=Verdict.TESTS_FAILED), "claims TestsFailed, but"),
    "tried too often": (
        a_report_of(a_flaky_case("test_a", Outcome.FAILED, Outcome.HUNG)),
        "after 2 failures of t.py::test_a, but spec.retries.flaky is 1",
    ),
    "another attempt": (a_report(attempt=2), "attempt 2"),
    "another run": (a_report(uid="other"), f"not of '{UID}'"),
}


@pytest.mark.parametrize(("report", "words"), FORGED.values(), ids=FORGED.keys())
def test_a_report_that_contradicts_itself_or_the_run_is_rejected(report: Report, words: str) -> None:
    with pytest.raises(InvalidReportError) as caught:
        read_report(report.dumps(), a_test(), announced(report))
    assert words in str(caught.value)


ENDS = {
    "exit code": (ContainerExit(code=10, summary=a_summary(report_sha256=found(a_report()).sha256)), "exit code 10"),
    "nothing announced": (ContainerExit(code=0, summary=a_summary()), "has no checksum of it"),
    "no message": (ContainerExit(code=0), "has no checksum of it"),
    "other announced": (ContainerExit(code=0, summary=a_summary(report_sha256="00")), "is not the one"),
    "no exit": (None, "for an unknown reason"),
}


@pytest.mark.parametrize(("end", "words"), ENDS.values(), ids=ENDS.keys())
def test_a_pass_must_agree_with_how_the_leader_ended(end: ContainerExit | None, words: str) -> None:
    with pytest.raises(InvalidReportError) as caught:
        read_report(a_report().dumps(), a_test(), end)
    assert words in str(caught.value)


def test_a_whole_report_is_accepted() -> None:
    report = a_report()
    accepted = read_report(report.dumps(), a_test(), announced(report))
    assert accepted.report == report
    assert conclusion(report) == (Verdict.PASSED, Reason.ALL_CASES_PASSED)


def test_a_red_report_needs_no_announcement_since_red_is_no_proof_of_anything_good() -> None:
    report = a_report({"a": Outcome.CRASHED, "b": Outcome.FAILED}, reason=Reason.CASES_FAILED)
    accepted = read_report(report.dumps(), a_test(), None)
    assert conclusion(accepted.report) == (Verdict.TESTS_FAILED, Reason.CASES_CRASHED), "the cases decide"


def test_a_verdict_that_is_not_about_cases_is_used_as_reported() -> None:
    report = a_report(verdict=Verdict.ERRORED, reason=Reason.COLLECTION_FAILED, suites=())
    assert conclusion(read_report(report.dumps(), a_test(), None).report) == (Verdict.ERRORED, Reason.COLLECTION_FAILED)


def test_flaky_cases_are_passed_cases_and_counted_by_their_tries() -> None:
    report = a_report_of(a_flaky_case())
    accepted = read_report(report.dumps(), a_test(), announced(report)).report
    assert conclusion(accepted) == (Verdict.PASSED, Reason.ALL_CASES_PASSED)
    assert (accepted.counts.flaky, accepted.counts[Outcome.PASSED]) == (1, 1)


def test_a_run_may_allow_more_tries() -> None:
    report = a_report_of(a_flaky_case("test_a", *[Outcome.FAILED] * 3))
    test = a_test(spec=a_spec(retries=Retries(flaky=3)))
    assert read_report(report.dumps(), test, announced(report)).report == report


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CRASHED, Outcome.SKIPPED, Outcome.NOT_RUN])
def test_a_case_that_did_not_pass_is_never_flaky_whatever_the_report_says(outcome: Outcome) -> None:
    data = a_report_of(a_flaky_case(outcome=outcome), verdict=Verdict.ERRORED).to_json()
    data["counts"]["flaky"] = 7
    for suite in data["suites"]:
        suite["counts"]["flaky"] = 7
        suite["cases"][0]["flaky"] = True
    accepted = read_report(json.dumps(data).encode(), a_test(), None).report
    assert (accepted.counts.flaky, accepted.suites[0].counts.flaky) == (0, 0)


def test_parts_that_this_reader_does_not_know_are_no_reason_to_refuse_a_report() -> None:
    data = a_report().to_json()
    data["of-a-newer-runner"] = data["suites"][0]["more"] = data["suites"][0]["cases"][0]["most"] = [{"x": 1}]
    raw = json.dumps(data).encode()
    end = ContainerExit(code=0, summary=a_summary(report_sha256=hashlib.sha256(raw).hexdigest()))
    assert conclusion(read_report(raw, a_test(), end).report) == (Verdict.PASSED, Reason.ALL_CASES_PASSED)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"schema": 1}', b"\xff\xfe"])
def test_what_is_no_report_is_said_to_be_none(raw: bytes) -> None:
    with pytest.raises(InvalidReportError):
        read_report(raw, a_test(), None)


def trimmed(*, counts: dict[str, int], **more: object) -> bytes:
    """A report that passed, and counts more cases than it has."""
    data = a_report().to_json()
    data["trimmed"] = "cases that did not fail"
    data["suites"][0]["leftOut"] = {"counts": counts, **more}
    return json.dumps(data).encode()


def read(raw: bytes) -> Report:
    report = Report.loads(raw)
    return read_report(report.dumps(), a_test(), announced(report)).report


def test_cases_that_were_left_out_for_the_size_of_a_report_count() -> None:
    report = read(trimmed(counts={"passed": 19_998}))
    assert conclusion(report) == (Verdict.PASSED, Reason.ALL_CASES_PASSED)
    assert report.counts.total == 20_000


@pytest.mark.parametrize(
    ("counts", "more", "why"),
    [
        ({"failed": 1}, {}, "its cases give TestsFailed"),
        ({"hung": 1}, {}, "its cases give Hung"),
        ({"failed": 1}, {"quarantined": {"failed": 1}}, "cannot be checked"),
        ({"passed": 1}, {"flaky": 1}, "cannot be checked"),
    ],
    ids=["failed", "hung", "excused", "flaky"],
)
def test_a_pass_that_omits_cases_which_must_be_checked_is_rejected(
    counts: dict[str, int], more: dict[str, object], why: str
) -> None:
    with pytest.raises(InvalidReportError, match=why):
        read(trimmed(counts=counts, **more))
