"""The status of a DistTest: while it is unfinished, between attempts, and when it has finished."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Verdict
from disttest_contract.results.report import CaseResult, Report
from disttest_contract.text import escaping, formatting
from disttest_operator.core.api import conditions, naming
from disttest_operator.core.api.conditions import ConditionState, ConditionType, GangReadyReason, SuspendedReason
from disttest_operator.core.api.model import Phase
from disttest_operator.core.observed import attempts, decoding
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.status import attempt_record, size_limits
from disttest_operator.core.verdict import capacity, report_check
from disttest_operator.core.verdict.rule import Ending

FAILURES = 20
RANKS = 64
NODES = 16
SUITE_MESSAGE_BYTES = 1024
SUITE_NAME_BYTES = 63
NODE_NAME_BYTES = 253


def results_of(report: Report, evidence: Evidence) -> dict[str, Any]:
    """The fields that come from the report. Only suites of the spec appear: a report may have any names."""
    by_name = {suite.name: suite for suite in reversed(report.suites)}
    suites = [by_name[suite.name] for suite in evidence.test.spec.suites if suite.name in by_name]
    rows = report_check.bandwidth_rows(report, evidence.test.spec.thresholds)
    return {
        "cases": report.counts.to_json(),
        "suites": [
            {
                "name": suite.name,
                "verdict": suite.verdict.value,
                "reason": suite.reason.value,
                "message": escaping.short_block(suite.message, SUITE_MESSAGE_BYTES),
                "seconds": finite(suite.seconds),
                "cases": suite.counts.to_json(),
            }
            for suite in suites
        ],
        "failures": _failures(report),
        **({"bandwidth": rows} if rows else {}),
    }


def _failures(report: Report) -> list[Mapping[str, Any]]:
    """Cases that the end of the run interrupted, that failed, that were flaky, and those in quarantine."""
    flaky = [(suite.name, case) for suite in report.suites for case in suite.cases if case.is_flaky]
    listed = [*report.interrupted, *report.failures, *flaky, *report.excused]
    return [_failure(report, suite, case) for suite, case in listed[:FAILURES]]


def _failure(report: Report, suite: str, case: CaseResult) -> Mapping[str, Any]:
    bad_try = next(one for one in case.earlier if one.outcome in BAD) if case.is_flaky else case
    full = bad_try.message[: limits.MESSAGE_BYTES]
    message = "\n".join(formatting.marked_lines(full)) or full  # ranks and nodes are fields next to it
    if case.is_flaky:
        message = f"{bad_try.outcome.value} at first: {message}"
    failure = {
        "case": escaping.short_case_id(case.id),
        "suite": escaping.short_line(suite, SUITE_NAME_BYTES),
        "outcome": case.outcome.value,
        "ranks": [rank for rank in bad_try.ranks if 0 <= rank < report.nodes * report.ranks_per_node][:RANKS],
        "nodes": [escaping.short_line(node, NODE_NAME_BYTES) for node in bad_try.nodes[:NODES]],
        "message": escaping.short_block(message, limits.FAILURE_MESSAGE_BYTES),
        "seconds": finite(case.seconds),
    }
    marks = {"flaky": case.is_flaky, "quarantined": case.is_excused}
    return failure | {key: True for key, is_set in marks.items() if is_set}


def finite(seconds: float) -> float:
    """A report may have any number; JSON has no infinity."""
    return round(seconds, 3) if 0 <= seconds < math.inf else 0.0


ORDER = tuple(Phase)
WITHOUT_PROGRESS: Mapping[str, Any] = MappingProxyType({"progress": None})  # a merge patch removes it
REDUNDANT = frozenset({"message", "cases", "charged"})  # in the last attempt's record: the status has them
REPORTED = frozenset({"cases", "suites", "failures", "bandwidth", "stepSeconds"})


def unfinished(evidence: Evidence) -> dict[str, Any]:
    """The status of a run without a verdict. It has no times that always change, since only changes are written."""
    waiting = "" if evidence.has_whole_gang else capacity.why_waiting(evidence)
    return _common(evidence) | {
        "phase": _phase(evidence).value,
        "reason": "",
        "message": escaping.short_block(waiting, conditions.MESSAGE_BYTES),
        "conditions": _merge(evidence, (*_suspended(evidence), _gang_ready(evidence))),
        **({} if evidence.has_whole_gang or evidence.has_leader_ended else WITHOUT_PROGRESS),
    }


def between_attempts(evidence: Evidence, ending: Ending) -> dict[str, Any]:
    """The status after an attempt that is followed by another one."""
    test = evidence.test
    made = attempt_record.make(evidence, ending)
    message = limits.cut(attempts.words(made), conditions.MESSAGE_BYTES)
    if (stored := evidence.seen.stored) and stored.config_map:
        made["report"] = stored.config_map
    gang_ready = _false(ConditionType.GANG_READY, ending.reason, message)
    status = _common(evidence) | {
        "phase": Phase.QUEUED.value,
        "reason": "",
        "message": message,
        "attempt": test.attempt,
        "startTime": None,
        "attempts": attempts.keep(test.records, made),
        "suspectNodes": attempt_record.suspect_nodes(evidence, ending),
        "retries": attempt_record.retries(evidence, ending),
        "conditions": _merge(evidence, (gang_ready,)),
    }
    return size_limits.between_attempts({**status, **WITHOUT_PROGRESS}, test.status)


def terminal(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The status in the run's ledger entry, without progress."""
    return {**entry["status"], **WITHOUT_PROGRESS}


def finished(evidence: Evidence, ending: Ending) -> dict[str, Any]:
    """The last status of a run."""
    test, now, report = evidence.test, evidence.now, attempt_record.partial_report(evidence)
    status = _common(evidence) | {
        "phase": Phase.FINISHED.value,
        "verdict": ending.verdict.value,
        "reason": ending.reason.value,
        "message": ending.message,
        "completionTime": conditions.stamp(now),
        "conditions": _merge(evidence, _last_conditions(evidence, ending)),
        "stepSeconds": _steps(evidence, report),
    }
    if started := _started(evidence):
        seconds = _seconds(started, now)
        status |= {"durationSeconds": seconds, "duration": formatting.show_duration(seconds)}
    if evidence.seen.job or test.has_begun:
        last = attempt_record.make(evidence, ending)
        kept = {key: value for key, value in last.items() if key not in REDUNDANT}
        status["attempts"] = attempts.keep(test.records, kept)
    if test.status.get("suspectNodes") or ending.blamed:
        status["suspectNodes"] = attempt_record.suspect_nodes(evidence, ending)
    if report:
        status |= results_of(report, evidence)
    if (stored := evidence.seen.stored) and stored.config_map:
        status["report"] = {"configMap": stored.config_map, "sha256": stored.sha256}
    return status


def without_details(status: Mapping[str, Any]) -> dict[str, Any]:
    """A terminal status without the fields of the report, for a status that the API server rejects."""
    kept = {key: value for key, value in status.items() if key not in REPORTED}
    message = limits.cut(status["message"], conditions.MESSAGE_BYTES)
    return kept | {"message": f"{message} (the API server rejected the details of this status; see the report)"}


def _common(evidence: Evidence) -> dict[str, Any]:
    test = evidence.test
    status: dict[str, Any] = {
        "observedGeneration": test.generation,
        "series": naming.series(test),
        "gpus": test.spec.gpus,
    }
    if evidence.seen.job:
        status["attempt"] = test.attempt
    if started := _started(evidence):
        status["startTime"] = conditions.stamp(started)
    return status


def _started(evidence: Evidence) -> datetime | None:
    """The time in the status if there is one, since pods may disappear."""
    return decoding.time(evidence.test.status.get("startTime")) or evidence.started


def _suspended(evidence: Evidence) -> tuple[ConditionState, ...]:
    """Empty if the run was never suspended."""
    test, job = evidence.test, evidence.seen.job
    if test.spec.suspend:
        return (_true(ConditionType.SUSPENDED, SuspendedReason.BY_SPEC, "spec.suspend is true"),)
    if job and job.is_suspended:
        words = f"waits in queue {test.spec.queue_name!r}" if test.spec.queue_name else "the Job is suspended"
        return (_true(ConditionType.SUSPENDED, SuspendedReason.QUEUED, words),)
    before = conditions.find(test.status, ConditionType.SUSPENDED)
    if before is None:
        return ()
    after: Mapping[str, str] = {
        SuspendedReason.BY_SPEC: SuspendedReason.RESUMED,
        SuspendedReason.QUEUED: SuspendedReason.ADMITTED,
    }
    return (_false(ConditionType.SUSPENDED, after.get(before["reason"], before["reason"]), "the run can continue"),)


def _true(type_: ConditionType, reason: str, message: str) -> ConditionState:
    return ConditionState(type=type_, is_true=True, reason=str(reason), message=message)


def _false(type_: ConditionType, reason: str, message: str) -> ConditionState:
    return ConditionState(type=type_, is_true=False, reason=str(reason), message=message)


def _phase(evidence: Evidence) -> Phase:
    pods = evidence.pods
    if evidence.has_leader_ended:
        phase = Phase.COLLECTING
    elif evidence.has_whole_gang:
        phase = Phase.RUNNING
    elif len(pods) == evidence.test.spec.nodes and all(pod.is_scheduled for pod in pods):
        phase = Phase.STARTING
    else:
        phase = Phase.QUEUED
    before = Phase(evidence.test.status.get("phase") or Phase.QUEUED)
    if before is Phase.FINISHED:  # without a verdict: another client wrote that
        return phase
    return max(phase, before, key=ORDER.index)


def _merge(evidence: Evidence, states: tuple[ConditionState, ...]) -> list[Any]:
    test = evidence.test
    return conditions.merge(test.status.get("conditions") or (), states, generation=test.generation, now=evidence.now)


def _gang_ready(evidence: Evidence) -> ConditionState:
    test = evidence.test
    before = conditions.find(test.status, ConditionType.GANG_READY)
    if evidence.has_whole_gang or (before and before["status"] == "True"):
        nodes = test.spec.nodes
        return _true(ConditionType.GANG_READY, GangReadyReason.RUNNING, f"{nodes} of {nodes} pods are running")
    return _false(ConditionType.GANG_READY, _wait_reason(evidence), capacity.why_waiting(evidence))


def _wait_reason(evidence: Evidence) -> str:
    seen = evidence.seen
    if evidence.test.spec.suspend or (seen.job and seen.job.is_suspended):
        return GangReadyReason.SUSPENDED
    if seen.older_run:
        return GangReadyReason.OLDER_RUN
    if seen.job is None and evidence.test.records:
        return str(evidence.test.records[-1]["reason"])
    if seen.nodes is not None and capacity.shortage(evidence.test, seen.nodes):
        return GangReadyReason.INSUFFICIENT_GPUS
    if any(pod.is_unschedulable for pod in evidence.pods):
        return GangReadyReason.UNSCHEDULABLE
    is_scheduled = all(pod.is_scheduled for pod in evidence.pods)
    return GangReadyReason.STARTING if is_scheduled else GangReadyReason.SCHEDULING


def _last_conditions(evidence: Evidence, ending: Ending) -> tuple[ConditionState, ...]:
    reason, message = ending.reason.value, ending.message
    problem = f"; {evidence.seen.stored.problem}" if evidence.seen.stored and evidence.seen.stored.problem else ""
    if attempt_record.partial_report(evidence):
        collected = _true(ConditionType.RESULTS_COLLECTED, "ReportRead", f"the report was read{problem}")
    else:
        words = f"there is no usable report{problem}"
        collected = _false(ConditionType.RESULTS_COLLECTED, reason, words)
    outcome = ConditionType.COMPLETE if ending.verdict is Verdict.PASSED else ConditionType.FAILED
    return (
        _gang_ready(evidence),
        collected,
        _true(outcome, reason, message),
        _true(ConditionType.FINISHED, ending.verdict, message),
    )


def _steps(evidence: Evidence, report: Report | None) -> dict[str, float]:
    """Seconds of each step whose start and end are known. Times of Kubernetes are whole seconds."""
    test, job = evidence.test, evidence.seen.job
    scheduled = [pod.conditions["PodScheduled"].since for pod in evidence.pods if "PodScheduled" in pod.conditions]
    times = [moment for moment in scheduled if moment]
    leader_end = evidence.leader.exit.at if evidence.leader and evidence.leader.exit else None
    marks = {
        "queued": (test.created, job.started if job else None),
        "scheduled": (job.started if job else None, max(times, default=None)),
        "pulled": (max(times, default=None), _started(evidence)),
        "joined": (_started(evidence), _moment(report.joined if report else None)),
        "ran": (_moment(report.joined if report else None), _moment(_last_case(report))),
        "collected": (_moment(_last_case(report)) or leader_end, evidence.now),
    }
    return {name: _seconds(begin, end) for name, (begin, end) in marks.items() if begin and end}


def _last_case(report: Report | None) -> float | None:
    return (report.last_case or report.finished) if report else None


def _moment(epoch_seconds: float | None) -> datetime | None:
    """None for a time that does not exist: a report may have any number."""
    try:
        return datetime.fromtimestamp(epoch_seconds, tz=UTC) if epoch_seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, round((end - begin).total_seconds(), 3))
