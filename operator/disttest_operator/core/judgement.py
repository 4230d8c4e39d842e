"""Whether a report is to be believed, and what it comes to. The cases decide, not what the report says of itself."""

import hashlib

from disttest_contract import limits
from disttest_contract.exits import EXIT_CODES
from disttest_contract.outcomes import BAD, Reason, Verdict
from disttest_contract.quarantine import NOTHING, Lists, Matcher
from disttest_contract.report import InvalidReportError, Report, judge_suites
from disttest_operator.core.evidence import ReportFound
from disttest_operator.core.model import DistTest
from disttest_operator.core.views import Exit

# Verdicts about cases, which can be checked against the cases; the others are about everything else.
SUITE_NAME_BYTES = 63
ABOUT_CASES = frozenset({Verdict.PASSED, Verdict.TESTS_FAILED, Verdict.HUNG})


def read_report(raw: bytes, test: DistTest, leader_exit: Exit | None, quarantine: Lists = NOTHING) -> ReportFound:
    """The report of a log if it is this run's and whole; raises InvalidReportError with a sentence.

    `quarantine` is what the gang was told of known failures: nothing else is excused.
    """
    found = read_stored_report(raw, test)
    _check_excuses(found.report, quarantine)
    summary = leader_exit.summary if leader_exit else None
    if summary and summary.report_sha256 and summary.report_sha256 != found.sha256:
        raise InvalidReportError(
            "the report in the leader's log is not the one that the leader's termination message names"
        )
    if found.report.verdict is Verdict.PASSED:
        _check_exit(leader_exit)
    return found


def read_stored_report(raw: bytes, test: DistTest) -> ReportFound:
    """A report that was accepted once, with all that it excuses; how its leader ended is not known any more."""
    report = Report.loads(raw)
    if (report.uid, report.attempt) != (test.uid, test.attempt):
        raise InvalidReportError(
            f"the report is of run {report.uid!r}, attempt {report.attempt}, "
            f"not of {test.uid!r}, attempt {test.attempt}"
        )
    if report.verdict in ABOUT_CASES:
        _check_cases(report)
    if report.verdict is Verdict.PASSED:
        _check_pass(report, test)
    return ReportFound(report=report, raw=raw, sha256=hashlib.sha256(raw).hexdigest())


def conclusion(report: Report) -> tuple[Verdict, Reason]:
    """Verdict and reason of an accepted report: of cases as counted here, of all else as told."""
    if report.verdict in ABOUT_CASES:
        return judge_suites(report.suites)
    return report.verdict, report.reason


def _check_cases(report: Report) -> None:
    verdict, reason = conclusion(report)
    if (verdict is Verdict.PASSED) != (report.verdict is Verdict.PASSED):
        raise InvalidReportError(f"the report claims {report.verdict}, but its cases come to {verdict} ({reason})")


def _check_excuses(report: Report, quarantine: Lists) -> None:
    """The word of a report is next to the code under test, which would like to be excused."""
    matchers = {suite: Matcher(patterns) for suite, patterns in quarantine.items()}
    for suite, case in report.excused:
        if suite not in matchers or not matchers[suite].has(case.id):
            raise InvalidReportError(
                f"the report says that {limits.cut_id(case.id)} of suite {limits.cut(suite, SUITE_NAME_BYTES)!r} is in "
                "quarantine, but the run's list does not have it"
            )
    is_unproven = any(suite.left_out.excused or suite.left_out.flaky for suite in report.suites)
    if report.verdict is Verdict.PASSED and is_unproven:
        raise InvalidReportError(
            "the report claims Passed, but leaves out cases in quarantine, or flaky ones, for its size: whether they "
            "may be excused cannot be seen; make several runs of it"
        )


def _check_pass(report: Report, test: DistTest) -> None:
    """Green needs every proof."""
    expected = [suite.name for suite in test.spec.suites]
    names = [suite.name for suite in report.suites]
    if names != expected:
        raise InvalidReportError(f"the report claims Passed for suites {names}, the run has {expected}")
    for suite in report.suites:
        verdict, reason = judge_suites([suite])
        if suite.verdict is not Verdict.PASSED or verdict is not Verdict.PASSED:
            raise InvalidReportError(
                f"the report claims Passed, but suite {suite.name!r} says {suite.verdict} "
                f"and its cases come to {verdict} ({reason})"
            )
    allowed = test.spec.retries.flaky
    for case in (case for suite in report.suites for case in suite.cases):
        tries = sum(one.outcome in BAD for one in case.earlier)
        if tries > allowed:
            raise InvalidReportError(
                f"the report claims Passed after {tries} bad tries of {limits.cut_id(case.id)}, "
                f"the run allows {allowed}"
            )
    world = (report.nodes, report.ranks_per_node, report.backend)
    wanted = (test.spec.nodes, test.spec.ranks_per_node, test.spec.backend.value)
    if world != wanted:
        raise InvalidReportError(f"the report is of nodes, ranks per node, backend {world}, the run has {wanted}")


def _check_exit(leader_exit: Exit | None) -> None:
    if leader_exit is None or leader_exit.code != EXIT_CODES[Verdict.PASSED]:
        end = f"with exit code {leader_exit.code}" if leader_exit else "nobody knows how"
        raise InvalidReportError(f"the report claims Passed, but the leader ended {end}")
    if not (leader_exit.summary and leader_exit.summary.report_sha256):
        raise InvalidReportError("the report claims Passed, but the leader's termination message does not name it")
