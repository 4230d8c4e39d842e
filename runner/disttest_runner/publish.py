"""The end of the leader's log: the whole report, cut to what fits if it must be."""

import dataclasses
import hashlib
from collections.abc import Callable

from disttest_contract import frames, limits
from disttest_contract.diagnosis import Diagnosis
from disttest_contract.report import CaseResult, Earlier, Report

SHORT_MESSAGE_BYTES = 256


def frame(report: Report, nonce: str, limit_bytes: int) -> tuple[list[str], str]:
    """The lines to print and the checksum of what they carry."""
    for change in (None, _without_stacks, _short, _bare):
        raw = (_map(report, change) if change else report).dumps()
        lines = frames.encode(raw, nonce)
        if sum(len(line) + 1 for line in lines) <= limit_bytes and len(raw) <= limits.REPORT_BYTES:
            break
    return lines, hashlib.sha256(raw).hexdigest()


def _map(report: Report, change: Callable[[CaseResult], CaseResult]) -> Report:
    suites = tuple(
        dataclasses.replace(suite, cases=tuple(change(case) for case in suite.cases)) for suite in report.suites
    )
    note = f"{report.message} (the report was too large for the log: stacks and messages of its cases are cut)"
    return dataclasses.replace(report, suites=suites, message=note)


def _without_stacks(case: CaseResult) -> CaseResult:
    """Of a diagnosis its sentence stays, and where the rest lies."""
    seen = case.diagnosis and Diagnosis(summary=case.diagnosis.summary, artifacts=case.diagnosis.artifacts)
    return dataclasses.replace(case, stacks={}, diagnosis=seen)


def _short(case: CaseResult) -> CaseResult:
    earlier = tuple(
        dataclasses.replace(one, message=limits.cut(one.message, SHORT_MESSAGE_BYTES)) for one in case.earlier
    )
    message = limits.cut(case.message, SHORT_MESSAGE_BYTES)
    return dataclasses.replace(_without_stacks(case), message=message, earlier=earlier)


def _bare(case: CaseResult) -> CaseResult:
    """Enough to count it, and to find it again."""
    return CaseResult(
        id=limits.cut_id(case.id),
        outcome=case.outcome,
        seconds=case.seconds,
        ranks=case.ranks[:1],
        nodes=case.nodes[:1],
        signal=case.signal,
        exit_code=case.exit_code,
        earlier=tuple(Earlier(outcome=one.outcome, seconds=one.seconds) for one in case.earlier),
        measurements=case.measurements,  # without them thresholds are not met
        quarantined=case.quarantined,
    )
