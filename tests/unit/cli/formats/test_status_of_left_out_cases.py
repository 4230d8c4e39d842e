"""A failure without a failed case has a separate entry in JUnit and CTRF."""

import dataclasses

import pytest

from disttest_cli.formats import junit
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import LeftOut
from tests.support.reports import report_samples as samples
from tests.support.reports.report_cases import CRASHED, FAILED, QUARANTINED
from tests.support.reports.reports import a_good_night, a_report, a_suite
from tests.unit.cli.formats.test_junit import cases, rendered


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.PASSED])
@pytest.mark.parametrize("base", ["without suites", "with cases that all passed", "with a suite of that verdict"])
def test_a_run_that_is_not_green_never_looks_green(verdict: Verdict, base: str) -> None:
    suites = {
        "without suites": (),
        "with cases that all passed": (a_suite("green", [samples.PASSED]),),
        "with a suite of that verdict": (
            a_suite("green", [samples.PASSED]),
            samples.without_cases("red", verdict, Reason.TERMINATED, "ended"),
        ),
    }[base]
    root = rendered(a_report(*suites, verdict=verdict, reason=Reason.TERMINATED, message="ended"))
    assert (root.get("errors"), root.get("failures")) == ("1", "0"), "once is enough"
    error = next(root.iter("error"))
    assert error.get("message") == f"{verdict.value} (Terminated): ended"


def test_a_lost_gang_is_distinguished_from_earlier_failures() -> None:
    report = a_report(a_suite("red", [FAILED]), verdict=Verdict.INFRA_FAILED, reason=Reason.GANG_LOST, message="gone")
    root = rendered(report)
    assert (root.get("failures"), root.get("errors")) == ("1", "1")


def test_a_suite_that_could_not_be_collected_is_an_error_among_green_ones() -> None:
    broken = samples.without_cases("broken", Verdict.ERRORED, Reason.COLLECTION_FAILED, "no module x")
    report = a_report(a_suite("green", [samples.PASSED]), broken, a_suite("red", [CRASHED]))
    root = rendered(report)
    assert root.get("errors") == "2"
    [error] = [part for part in root.iter("error") if part.get("type") == "CollectionFailed"]
    assert error.get("message") == "Errored (CollectionFailed): no module x"


@pytest.mark.parametrize(
    ("left_out", "tag", "errors"),
    [
        (samples.LEFT_OUT, "error", "1"),
        (LeftOut(by_outcome={Outcome.PASSED: 9}), "skipped", "0"),
        (LeftOut(by_outcome={Outcome.HUNG: 9}, excused={Outcome.HUNG: 9}), "skipped", "0"),
    ],
    ids=["red", "good", "known"],
)
def test_cases_that_the_report_omits_have_an_entry(left_out: LeftOut, tag: str, errors: str) -> None:
    report = samples.trimmed(left_out)
    part = cases(report)["left out"].find(tag)
    assert part is not None
    assert f"{left_out.counts.total} cases omitted because of the report's size limit: " in part.get("message", "")
    assert rendered(report).get("errors") == errors


def test_a_suite_whose_red_cases_were_all_left_out_is_red() -> None:
    suite = dataclasses.replace(a_suite("s", [FAILED]), cases=(), left_out=LeftOut(by_outcome={Outcome.FAILED: 1}))
    root = rendered(a_report(suite, trimmed="failed cases"))
    assert (root.get("tests"), root.get("errors")) == ("1", "1")


def test_a_good_night_is_all_green() -> None:
    root = rendered(a_good_night())
    assert (root.get("errors"), root.get("failures")) == ("0", "0")
    quarantined = a_report(a_suite("known", [samples.PASSED, QUARANTINED]))
    assert quarantined.verdict is Verdict.PASSED
    assert (rendered(quarantined).get("errors"), rendered(quarantined).get("skipped")) == ("0", "1")


def test_a_green_report_of_which_all_cases_were_left_out_still_has_something_to_show() -> None:
    root = rendered(samples.nothing(verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED, trimmed="good cases"))
    assert (root.get("tests"), root.get("errors")) == ("1", "0")
    assert 'name="disttest.trimmed" value="good cases"' in junit.render(
        samples.subject(samples.nothing(trimmed="good cases"))
    )
