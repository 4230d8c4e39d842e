"""Checks of a report against its run. The verdict follows from the cases, not from the summary of the report."""

import hashlib
from collections.abc import Sequence
from typing import Any

from disttest_contract import limits
from disttest_contract.gang.quarantine import NOTHING, Lists, Matcher
from disttest_contract.outcomes import BAD, EXIT_CODES, Reason, Verdict
from disttest_contract.results import network_transport, thresholds
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import InvalidReportError, Report, judge_suites
from disttest_contract.results.thresholds import Threshold, ThresholdResult
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed.evidence import ReportFound
from disttest_operator.core.observed.objects import ContainerExit

SUITE_NAME_BYTES = 63
ABOUT_CASES = frozenset({Verdict.PASSED, Verdict.TESTS_FAILED, Verdict.HUNG})  # these can be derived from the cases


def read_report(
    raw: bytes, test: DistTest, leader_exit: ContainerExit | None, quarantine: Lists = NOTHING
) -> ReportFound:
    """Check that a report from a log belongs to this run and is complete. Raises InvalidReportError.

    `quarantine` is the list of known failures that the gang received: no other case is excused.
    """
    found = read_stored_report(raw, test)
    _check_excuses(found.report, quarantine)
    summary = leader_exit.summary if leader_exit else None
    if summary and summary.report_sha256 and summary.report_sha256 != found.sha256:
        raise InvalidReportError(
            "the report in the leader's log is not the one of the leader's termination message (the checksums differ)"
        )
    if found.report.verdict is Verdict.PASSED:
        _check_exit(leader_exit)
    return found


def read_stored_report(raw: bytes, test: DistTest) -> ReportFound:
    """Check a stored report, which was accepted before: its excuses and the leader's exit are not checked again."""
    report = Report.loads(raw)
    if (report.uid, report.attempt) != (test.uid, test.attempt):
        raise InvalidReportError(
            f"the report is of run {report.uid!r}, attempt {report.attempt}, "
            f"not of {test.uid!r}, attempt {test.attempt}"
        )
    verdict, reason = conclusion(report)
    if (verdict is Verdict.PASSED) != (report.verdict is Verdict.PASSED):
        raise InvalidReportError(f"the report claims {report.verdict}, but its cases give {verdict} ({reason})")
    if report.verdict is Verdict.PASSED:
        _check_pass(report, test)
    return ReportFound(report=report, raw=raw, sha256=hashlib.sha256(raw).hexdigest())


def conclusion(report: Report) -> tuple[Verdict, Reason]:
    """Verdict and reason of an accepted report: derived from the cases if they are about cases, else as reported."""
    if report.verdict in ABOUT_CASES:
        return judge_suites(report.suites)
    return report.verdict, report.reason


def _check_excuses(report: Report, quarantine: Lists) -> None:
    """Only cases in quarantine may be excused: the code under test can write to the report."""
    matchers = {suite: Matcher(patterns) for suite, patterns in quarantine.items()}
    for suite, case in report.excused:
        if suite not in matchers or not matchers[suite].has(case.id):
            raise InvalidReportError(
                f"the report claims that {limits.cut_id(case.id)} of suite {limits.cut(suite, SUITE_NAME_BYTES)!r} is "
                "in quarantine, but the quarantine list of the run does not contain it"
            )
    is_unproven = any(suite.left_out.excused or suite.left_out.flaky for suite in report.suites)
    if report.verdict is Verdict.PASSED and is_unproven:
        raise InvalidReportError(
            "the report claims Passed, but omits quarantined or flaky cases because of its size, so that they cannot "
            "be checked; split the suites into several DistTests"
        )


def _check_pass(report: Report, test: DistTest) -> None:
    """A pass needs all suites, no bad case without an allowed retry, and the size of the run."""
    expected = [suite.name for suite in test.spec.suites]
    names = [suite.name for suite in report.suites]
    if names != expected:
        raise InvalidReportError(f"the report claims Passed for suites {names}, but the run has {expected}")
    for suite in report.suites:
        verdict, reason = judge_suites([suite])
        if suite.verdict is not Verdict.PASSED or verdict is not Verdict.PASSED:
            raise InvalidReportError(
                f"the report claims Passed, but suite {suite.name!r} claims {suite.verdict} "
                f"and its cases give {verdict} ({reason})"
            )
    allowed = test.spec.retries.flaky
    for case in (case for suite in report.suites for case in suite.cases):
        tries = sum(one.outcome in BAD for one in case.earlier)
        if tries > allowed:
            failures = f"{tries} failures of {limits.cut_id(case.id)}"
            raise InvalidReportError(f"the report claims Passed after {failures}, but spec.retries.flaky is {allowed}")
    world = (report.nodes, report.ranks_per_node, report.backend)
    wanted = (test.spec.nodes, test.spec.ranks_per_node, test.spec.backend.value)
    if world != wanted:
        raise InvalidReportError(f"the report has nodes, ranks per node and backend {world}, but the run has {wanted}")


def _check_exit(leader_exit: ContainerExit | None) -> None:
    if leader_exit is None or leader_exit.code != EXIT_CODES[Verdict.PASSED]:
        end = f"with exit code {leader_exit.code}" if leader_exit else "for an unknown reason"
        raise InvalidReportError(f"the report claims Passed, but the leader ended {end}")
    if not (leader_exit.summary and leader_exit.summary.report_sha256):
        raise InvalidReportError("the report claims Passed, but the leader's termination message has no checksum of it")


def bandwidth_rows(report: Report, wanted: Sequence[Threshold]) -> list[dict[str, Any]]:
    """status.bandwidth: measurements with a threshold first, the worst of them on top."""
    return [_row(one) for one in thresholds.standings(_sound(report), wanted)[: limits.BANDWIDTHS]]


def missed_thresholds(report: Report, wanted: Sequence[Threshold]) -> str:
    """A sentence if the measurements of a passed report miss the thresholds, else an empty text.

    Such a report is from a runner without thresholds, or forged. Excuses were checked before.
    """
    if not wanted:
        return ""
    excused = {case.id for _, case in report.excused}
    judged = [
        one for suite in report.suites for case in suite.cases if not case.is_excused for one in case.measurements
    ]
    silent = [
        f"{one.name} was not measured"
        for one in thresholds.unmeasured(_sound(report), wanted)
        if one.case_id not in excused
    ]
    found = [*thresholds.shortfalls(judged, wanted), *silent]
    if not found:
        return ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"The cases passed, but a threshold was missed: {found[0]}{more}. The runner did not check thresholds; "
        "check that --runner-image of the operator has the same version as the operator."
    )


def unproven_transport(report: Report, wanted: str) -> str:
    """A sentence if a passed report does not prove spec.transport, else an empty text.

    Such a report is from a runner that does not know the field, or forged.
    """
    if network_transport.is_met(wanted, report.transport):
        return ""
    return (
        f"The cases passed, but spec.transport is {wanted}, and the report has {report.transport.used.words}. "
        "The runner did not check it; check that --runner-image of the operator has the same version as the operator."
    )


def _sound(report: Report) -> list[Measurement]:
    measured = (one for suite in report.suites for case in suite.cases for one in case.measurements)
    return [one for one in measured if thresholds.is_sound(one)]


def _row(one: ThresholdResult) -> dict[str, Any]:
    row = {
        "collective": one.collective,
        "dtype": one.dtype,
        "sizeBytes": one.size_bytes,
        "busBandwidthBytesPerSecond": one.measured.bus_bandwidth_bytes_per_second if one.measured else None,
        "thresholdBytesPerSecond": one.threshold.min_bus_bandwidth_bytes_per_second if one.threshold else None,
        "ok": one.is_met,
    }
    return {key: value for key, value in row.items() if value not in ("", None)}
