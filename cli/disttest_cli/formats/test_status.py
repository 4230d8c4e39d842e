"""What a case or a part of the run is for tools that know less words than we do. Pure.

Silence is never a pass: what is red without a case that says so gets an entry of its own.
"""

from dataclasses import dataclass
from enum import StrEnum

from disttest_cli.formats import plain
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report, SuiteResult

ABOUT_CASES = frozenset({Verdict.TESTS_FAILED, Verdict.HUNG})  # red cases say these themselves

LEFT_OUT = "left out"


class TestStatus(StrEnum):
    GOOD = "good"
    FAILURE = "failure"  # the case says that something is wrong
    ERROR = "error"  # it did not come to its end
    SKIPPED = "skipped"


STANDINGS: dict[Outcome, TestStatus] = {
    Outcome.PASSED: TestStatus.GOOD,
    Outcome.XPASSED: TestStatus.GOOD,  # not strict: the suite lets it pass
    Outcome.FAILED: TestStatus.FAILURE,
    Outcome.ERRORED: TestStatus.ERROR,
    Outcome.CRASHED: TestStatus.ERROR,
    Outcome.HUNG: TestStatus.ERROR,
    Outcome.SKIPPED: TestStatus.SKIPPED,
    Outcome.XFAILED: TestStatus.SKIPPED,  # as pytest itself does
    Outcome.NOT_RUN: TestStatus.SKIPPED,  # neither good nor bad; what kept it from running is red on its own
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What no case says. Not `is_bad`: only that there is nothing to list."""

    name: str
    message: str
    reason: Reason
    verdict: Verdict
    is_bad: bool = True


def of_case(case: CaseResult) -> TestStatus:
    """Known failures are skipped: they make no run red."""
    if case.is_interrupted:
        return TestStatus.ERROR
    return TestStatus.SKIPPED if case.is_excused else STANDINGS[case.outcome]


def red(suite: SuiteResult) -> int:
    """How many of its cases make it red, with those that the report has left out."""
    return suite.counts.bad - suite.counts.quarantined


def of_left_out(suite: SuiteResult) -> Notice | None:
    """For the cases that the report has left out for its size: bad if some of them are red."""
    counts = suite.left_out.counts
    if not counts.total:
        return None
    said = ", ".join(f"{count} {outcome.value}" for outcome, count in suite.left_out.by_outcome.items() if count)
    known = f"; {counts.quarantined} of them in quarantine" if counts.quarantined else ""
    return Notice(
        name=LEFT_OUT,
        message=f"{counts.total} cases are not listed for the report's size: {said}{known}",
        reason=suite.reason,
        verdict=suite.verdict,
        is_bad=counts.bad > counts.quarantined,
    )


def of_suite(suite: SuiteResult) -> Notice | None:
    """If the suite is red and its cases are not, or not for that."""
    if suite.verdict is Verdict.PASSED or (suite.verdict in ABOUT_CASES and red(suite)):
        return None
    return Notice(name="suite", message=suite.message, reason=suite.reason, verdict=suite.verdict)


def of_run(report: Report) -> Notice | None:
    """If the run is red and neither its cases nor its suites say that; and if there is nothing else to list."""
    said = [notice for suite in report.suites if (notice := of_suite(suite))]
    notice = Notice(
        name="run",
        message=report.message,
        reason=report.reason,
        verdict=report.verdict,
        is_bad=report.verdict is not Verdict.PASSED,
    )
    if not notice.is_bad:
        return None if said or report.counts.total else notice
    if any(_says(one, report) for one in said):
        return None
    return None if report.verdict in ABOUT_CASES and any(map(red, report.suites)) else notice


def _says(one: Notice, report: Report) -> bool:
    """A run's message mostly is that of its worst suite, with the suite's name before it."""
    return (one.verdict, one.reason) == (report.verdict, report.reason) and one.message in report.message


def sentence(notice: Notice) -> str:
    text = f"{notice.verdict.value} ({notice.reason.value})"
    return f"{text}: {plain.one_line(notice.message)}" if notice.message.strip() else text
