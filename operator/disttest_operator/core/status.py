"""The status of a DistTest: while it goes on, and when it has come to something."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Verdict
from disttest_contract.report import CaseResult, Report
from disttest_operator.core import bodies, capacity, conditions, naming, refusals
from disttest_operator.core.conditions import State, Type
from disttest_operator.core.evidence import ATTEMPT, Evidence, ReportFound
from disttest_operator.core.model import Phase
from disttest_operator.core.rule import Ending

FAILURES = 20
RANKS = 64
NODES = 16
SUITE_MESSAGE_BYTES = 1024
SUITE_NAME_BYTES = 63
NODE_NAME_BYTES = 253
ORDER = tuple(Phase)
REPORTED = frozenset({"cases", "suites", "failures", "stepSeconds"})


def going_on(evidence: Evidence) -> dict[str, Any]:
    """Changes only when something of it does: it is compared with what is there before it is written."""
    phase = _phase(evidence)
    return _common(evidence) | {
        "phase": phase.value,
        "reason": "",
        "message": "" if evidence.has_whole_gang else refusals.why_waiting(evidence)[: conditions.MESSAGE_BYTES],
        "conditions": _merge(evidence, (_gang_ready(evidence),)),
    }


def finished(evidence: Evidence, ending: Ending) -> dict[str, Any]:
    """The last status of a run."""
    now, report = evidence.now, _report(evidence)
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
        status["durationSeconds"] = _seconds(started, now)
    if report:
        status |= _results(report, evidence)
    if (stored := evidence.seen.stored) and stored.config_map:
        status["report"] = {"configMap": stored.config_map, "sha256": stored.sha256}
    return status


def without_details(status: Mapping[str, Any]) -> dict[str, Any]:
    """A terminal status without what a report could have put into it: refused as a whole it would end no run."""
    kept = {key: value for key, value in status.items() if key not in REPORTED}
    message = limits.cut(status["message"], conditions.MESSAGE_BYTES)
    return kept | {"message": f"{message} (details are in the report only: the API server refused them here)"}


def _common(evidence: Evidence) -> dict[str, Any]:
    test = evidence.test
    status: dict[str, Any] = {
        "observedGeneration": test.generation,
        "series": naming.series(test),
        "gpus": test.spec.gpus,
    }
    if evidence.seen.job or test.status.get("attempt"):
        status["attempt"] = ATTEMPT
    if started := _started(evidence):
        status["startTime"] = conditions.stamp(started)
    return status


def _started(evidence: Evidence) -> datetime | None:
    """Once it is written it stays: pods may vanish."""
    return bodies.time(evidence.test.status.get("startTime")) or evidence.started


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
    before = evidence.test.status.get("phase") or Phase.QUEUED
    return max(phase, Phase(before), key=ORDER.index)


def _merge(evidence: Evidence, states: tuple[State, ...]) -> list[Any]:
    test = evidence.test
    return conditions.merge(test.status.get("conditions") or (), states, generation=test.generation, now=evidence.now)


def _gang_ready(evidence: Evidence) -> State:
    test = evidence.test
    before = conditions.find(test.status, Type.GANG_READY)
    if evidence.has_whole_gang or (before and before["status"] == "True"):
        nodes = test.spec.nodes
        return State(type=Type.GANG_READY, is_true=True, reason="GangRunning", message=f"{nodes} of {nodes} pods run")
    return State(
        type=Type.GANG_READY, is_true=False, reason=_wait_reason(evidence), message=refusals.why_waiting(evidence)
    )


def _wait_reason(evidence: Evidence) -> str:
    seen = evidence.seen
    if seen.job and seen.job.is_suspended:
        return "Suspended"
    if seen.nodes is not None and capacity.shortage(evidence.test, seen.nodes):
        return "TooFewGpus"
    if any(not pod.is_scheduled for pod in evidence.pods):
        return "Unschedulable" if _is_unschedulable(evidence) else "Scheduling"
    return "Starting"


def _is_unschedulable(evidence: Evidence) -> bool:
    return any(
        (condition := pod.conditions.get("PodScheduled")) is not None and not condition.is_true for pod in evidence.pods
    )


def _last_conditions(evidence: Evidence, ending: Ending) -> tuple[State, ...]:
    reason, message = ending.reason.value, ending.message
    collected = _report(evidence) is not None
    words = "the report was read" if collected else "there is no report that can be used"
    if evidence.seen.stored and evidence.seen.stored.problem:
        words = f"{words}; {evidence.seen.stored.problem}"
    outcome = Type.COMPLETE if ending.verdict is Verdict.PASSED else Type.FAILED
    return (
        _gang_ready(evidence),
        State(
            type=Type.RESULTS_COLLECTED,
            is_true=collected,
            reason="ReportRead" if collected else reason,
            message=words,
        ),
        State(type=outcome, is_true=True, reason=reason, message=message),
        State(type=Type.FINISHED, is_true=True, reason=ending.verdict.value, message=message),
    )


def _report(evidence: Evidence) -> Report | None:
    return evidence.report.report if isinstance(evidence.report, ReportFound) else None


def _results(report: Report, evidence: Evidence) -> dict[str, Any]:
    """Names of suites come from the spec: what a report calls them could be anything."""
    by_name = {suite.name: suite for suite in reversed(report.suites)}
    suites = [by_name[suite.name] for suite in evidence.test.spec.suites if suite.name in by_name]
    return {
        "cases": report.counts.to_json(),
        "suites": [
            {
                "name": suite.name,
                "verdict": suite.verdict.value,
                "reason": suite.reason.value,
                "message": limits.cut(suite.message, SUITE_MESSAGE_BYTES),
                "seconds": _finite(suite.seconds),
                "cases": suite.counts.to_json(),
            }
            for suite in suites
        ],
        "failures": _failures(report),
    }


def _failures(report: Report) -> list[Mapping[str, Any]]:
    """Cases that ended badly, then those that did so at first."""
    flaky = [(suite.name, case) for suite in report.suites for case in suite.cases if case.is_flaky]
    return [_failure(report, suite, case) for suite, case in [*report.failures, *flaky][:FAILURES]]


def _failure(report: Report, suite: str, case: CaseResult) -> Mapping[str, Any]:
    told = next(one for one in case.earlier if one.outcome in BAD) if case.is_flaky else case
    message = f"{told.outcome.value} at first: {told.message}" if case.is_flaky else case.message
    failure = {
        "case": limits.cut_id(case.id),
        "suite": limits.cut(suite, SUITE_NAME_BYTES),
        "outcome": case.outcome.value,
        "ranks": [rank for rank in told.ranks if 0 <= rank < report.nodes * report.ranks_per_node][:RANKS],
        "nodes": [limits.cut(node, NODE_NAME_BYTES) for node in told.nodes[:NODES]],
        "message": limits.cut(message, limits.FAILURE_MESSAGE_BYTES),
        "seconds": _finite(case.seconds),
    }
    return failure | ({"flaky": True} if case.is_flaky else {})


def _steps(evidence: Evidence, report: Report | None) -> dict[str, float]:
    """How long each step took, as far as both its ends are known. Kubernetes' times are whole seconds."""
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
    """A report's times are the leader's; one that is no time at all is left out."""
    try:
        return datetime.fromtimestamp(epoch_seconds, tz=UTC) if epoch_seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _finite(seconds: float) -> float:
    """A report may say anything; JSON has no infinity."""
    return round(seconds, 3) if 0 <= seconds < math.inf else 0.0


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, round((end - begin).total_seconds(), 3))
