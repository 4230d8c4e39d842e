"""The record of an ended attempt in the status, the nodes it suspects, and whether another attempt follows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Reason, Verdict
from disttest_contract.results.report import Report
from disttest_contract.text import escaping
from disttest_operator.core.api import conditions, naming
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Evidence, ReportFound
from disttest_operator.core.observed.objects import PodView
from disttest_operator.core.verdict.pods_ended import case_in_flight
from disttest_operator.core.verdict.rule import Ending, Retry

NODES = 64
SUSPECTS = 16
MESSAGE_BYTES = 1024
ENDING_BYTES = 4096  # the message of a run
# Failures of infrastructure that a test case can cause too.
MAY_BE_A_CASE = frozenset({Reason.NODE_LOST, Reason.POD_KILLED, Reason.GANG_LOST, Reason.POD_DELETED})


def make(evidence: Evidence, ending: Ending) -> dict[str, Any]:
    """One element of status.attempts."""
    test, report = evidence.test, partial_report(evidence)
    record: dict[str, Any] = {
        "number": test.attempt,
        "job": naming.job(test, test.attempt),
        "nodes": list(gang_nodes(evidence)),
        "verdict": ending.verdict.value,
        "reason": ending.reason.value,
        "message": limits.cut(ending.message, MESSAGE_BYTES),
        "charged": ending.retry is Retry.CHARGED,
        "completionTime": conditions.stamp(evidence.now),
    }
    if started := test.status.get("startTime") or (evidence.started and conditions.stamp(evidence.started)):
        record["startTime"] = started
    if counts := _counts(evidence, report):
        record["cases"] = counts.to_json()
    if ending.verdict is not Verdict.PASSED and (first := _first_failure(evidence, report)):
        record["firstFailure"] = first
    return record


def gang_nodes(evidence: Evidence) -> tuple[str, ...]:
    """Names of nodes, by node index."""
    return tuple(dict.fromkeys(pod.node for pod in evidence.pods if pod.node))[:NODES]


def suspect_nodes(evidence: Evidence, ending: Ending) -> list[dict[str, Any]]:
    """Suspects of all attempts: a pass clears the nodes on which it ran and confirms the others."""
    known = {entry["name"]: dict(entry) for entry in evidence.test.status.get("suspectNodes") or ()}
    for name in ending.blamed:
        known[name] = {
            "name": name,
            "reason": ending.reason.value,
            "evidence": limits.cut(ending.message, limits.FAILURE_MESSAGE_BYTES),
            "confirmed": False,
        }
    if ending.verdict is Verdict.PASSED:
        clean = set(gang_nodes(evidence))
        known = {name: entry | {"confirmed": True} for name, entry in known.items() if name not in clean}
    if _is_the_same_case_again(evidence, ending):
        known = {}
    return list(known.values())[:SUSPECTS]


def retries(evidence: Evidence, ending: Ending) -> list[dict[str, Any]]:
    """status.retries, with the reason of this ending counted."""
    counts = {row["reason"]: row["count"] for row in evidence.test.status.get("retries") or ()}
    counts[ending.reason.value] = counts.get(ending.reason.value, 0) + 1
    return [{"reason": reason, "count": count} for reason, count in counts.items()]


def reconsider(evidence: Evidence, ending: Ending) -> Ending:
    """The ending with its final retry: none if all are used, and the same case on other nodes fails the test."""
    if _is_the_same_case_again(evidence, ending):
        case = escaping.short_case_id(case_in_flight(evidence))
        before = next(record for record in evidence.test.records if attempts.case_in_flight(record) == case)
        message = (
            f"Two gangs on different nodes were lost during {case} "
            f"({before['reason']}, then {ending.reason}): {ending.message}"
        )
        message = limits.cut(message, ENDING_BYTES)
        return Ending(verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_CRASHED, message=message)
    if ending.retry is Retry.CHARGED and not attempts.retries_left(evidence.test):
        return replace(ending, retry=Retry.NEVER)
    return ending


def _is_the_same_case_again(evidence: Evidence, ending: Ending) -> bool:
    """Whether two gangs without a common node were lost during the same case."""
    if ending.reason not in MAY_BE_A_CASE and ending.reason is not Reason.CASES_CRASHED:
        return False
    case, nodes = escaping.short_case_id(case_in_flight(evidence)), set(gang_nodes(evidence))
    return any(
        bool(case)
        and attempts.case_in_flight(record) == case
        and record["reason"] in MAY_BE_A_CASE
        and bool(record.get("nodes"))
        and len(record["nodes"]) < NODES
        and nodes.isdisjoint(record["nodes"])
        for record in evidence.test.records
    )


def partial_report(evidence: Evidence) -> Report | None:
    return evidence.report.report if isinstance(evidence.report, ReportFound) else None


def _counts(evidence: Evidence, report: Report | None) -> Counts | None:
    """From the report, else from the leader's termination message: the log of an evicted pod is lost."""
    if report:
        return report.counts
    end = evidence.leader.exit if evidence.leader else None
    return end.summary.counts if end and end.summary and end.summary.counts.total else None


def _first_failure(evidence: Evidence, report: Report | None) -> Mapping[str, Any] | None:
    """The first pod that failed, by time: it is the cause, the others are victims."""
    pod = next(iter(evidence.ended_pods), None) or next(iter(evidence.lost_pods), None)
    case = case_in_flight(evidence)
    if pod is None and not case:
        return None
    found: dict[str, Any] = {"case": escaping.short_case_id(case), **(_end_of(pod) if pod else {})}
    if report and report.failures:
        ranks = report.failures[0][1].ranks
        found |= {"rank": ranks[0]} if ranks and ranks[0] >= 0 else {}
    return {key: value for key, value in found.items() if value not in ("", None)}


def _end_of(pod: PodView) -> dict[str, Any]:
    end = pod.exit
    at = (end.at if end else None) or pod.ending_since
    words = (end.last_words if end else "") or (pod.disruption.message if pod.disruption else pod.message)
    return {
        "time": conditions.stamp(at) if at else "",
        "pod": pod.name,
        "node": pod.node,
        "exitCode": end.code if end else None,
        "signal": (end.signal or None) if end else None,
        "message": escaping.short_block(words, limits.FAILURE_MESSAGE_BYTES),
    }
