"""Status of cases, suites and runs for tools with fewer outcomes.

A suite or run that failed without a failed case gets a separate entry, so that no failure is missing.
"""

from dataclasses import dataclass
from enum import StrEnum

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.text import escaping, formatting

ABOUT_CASES = frozenset({Verdict.TESTS_FAILED, Verdict.HUNG})  # explained by failed cases

LEFT_OUT = "left out"


class TestStatus(StrEnum):
    GOOD = "good"
    FAILURE = "failure"  # the case found a defect
    ERROR = "error"  # the case did not finish
    SKIPPED = "skipped"


STANDINGS: dict[Outcome, TestStatus] = {
    Outcome.PASSED: TestStatus.GOOD,
    Outcome.XPASSED: TestStatus.GOOD,  # not strict: the suite accepts it
    Outcome.FAILED: TestStatus.FAILURE,
    Outcome.ERRORED: TestStatus.ERROR,
    Outcome.CRASHED: TestStatus.ERROR,
    Outcome.HUNG: TestStatus.ERROR,
    Outcome.SKIPPED: TestStatus.SKIPPED,
    Outcome.XFAILED: TestStatus.SKIPPED,  # like pytest
    Outcome.NOT_RUN: TestStatus.SKIPPED,  # its cause has a separate entry
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An entry that is not a case. Not `is_bad`: there are no cases to list."""

    name: str
    message: str
    reason: Reason
    verdict: Verdict
    is_bad: bool = True


def of_case(case: CaseResult) -> TestStatus:
    """Failures in quarantine count as skipped, since they do not fail the run."""
    if case.is_interrupted:
        return TestStatus.ERROR
    return TestStatus.SKIPPED if case.is_excused else STANDINGS[case.outcome]


def of_left_out(suite: SuiteResult) -> Notice | None:
    """An entry for cases that the report omits for its size; bad if any of them failed."""
    counts = suite.left_out.counts
    if not counts.total:
        return None
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in suite.left_out.by_outcome.items() if count)
    known = f"; {counts.quarantined} of them in quarantine" if counts.quarantined else ""
    cases = formatting.counted(counts.total, "case")
    return Notice(
        name=LEFT_OUT,
        message=f"{cases} omitted because of the report's size limit: {outcomes}{known}",
        reason=suite.reason,
        verdict=suite.verdict,
        is_bad=counts.red > 0,
    )


def of_suite(suite: SuiteResult) -> Notice | None:
    """An entry for a suite that failed for another reason than its cases."""
    if suite.verdict is Verdict.PASSED or (suite.verdict in ABOUT_CASES and suite.counts.red):
        return None
    return Notice(name="suite", message=suite.message, reason=suite.reason, verdict=suite.verdict)


def of_run(report: Report) -> Notice | None:
    """An entry for a run that failed for another reason than its cases and suites, or that has nothing to list."""
    notices = [notice for suite in report.suites if (notice := of_suite(suite))]
    notice = Notice(
        name="run",
        message=report.message,
        reason=report.reason,
        verdict=report.verdict,
        is_bad=report.verdict is not Verdict.PASSED,
    )
    if not notice.is_bad:
        return None if notices or report.counts.total else notice
    # The run's message is that of the suite, with its name as prefix.
    same = [one for one in notices if (one.verdict, one.reason) == (report.verdict, report.reason)]
    if any(one.message in report.message for one in same):
        return None
    return None if report.verdict in ABOUT_CASES and report.counts.red else notice


def sentence(notice: Notice) -> str:
    text = f"{notice.verdict.value} ({notice.reason.value})"
    return f"{text}: {escaping.short_line(notice.message)}" if notice.message.strip() else text
