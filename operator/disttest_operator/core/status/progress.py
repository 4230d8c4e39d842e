"""status.progress: the newest progress line of the leader's log, escaped and written at a limited rate."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from disttest_contract import limits
from disttest_contract.text import escaping
from disttest_contract.transport.progress import FAILURES, NODES, Failure, Progress
from disttest_operator.core.api import conditions
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.status import size_limits

SPACING_SECONDS = 10.0  # between two writes of one run
WRITES_PER_SECOND = 5  # of all runs together
STAMP_SECONDS = 1.0  # the error of a written time, which has whole seconds
PROGRESS_BYTES = 8 << 10  # as the API server encodes it
TEXT_BYTES = 256
STEP_BYTES = 16
NODE_NAME_BYTES = 253
CLEARED_FIELDS = ("step", "suite", "currentCase")  # null if empty, since a merge patch keeps fields that are absent


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTarget:
    """The pod whose log is followed, and the nonce that marks the runner's lines in it."""

    namespace: str
    pod: str
    uid: str
    nonce: str


def spacing_seconds(followed: int) -> float:
    """Seconds between two writes of one run, so that all followed runs together stay below WRITES_PER_SECOND."""
    return max(SPACING_SECONDS, followed / WRITES_PER_SECOND)


def target(evidence: Evidence) -> FollowTarget | None:
    """None while no leader is running."""
    leader, job = evidence.leader, evidence.seen.job
    if not _is_running(evidence) or leader is None or job is None or not job.nonce:
        return None
    return FollowTarget(namespace=leader.namespace, pod=leader.name, uid=leader.uid, nonce=job.nonce)


def due_at(evidence: Evidence) -> datetime | None:
    """When to write the progress; None if the status is up to date."""
    seen, before = evidence.seen.progress, evidence.test.status.get("progress") or {}
    job = evidence.seen.job
    if seen is None or job is None or seen.nonce != job.nonce or not _is_running(evidence):
        return None
    if _without_time(to_status(seen.progress, evidence.test)) == _without_time(before):
        return None
    written = decoding.time(before.get("time"))
    if written is None or written > evidence.now:  # a clock has jumped
        return evidence.now
    return written + timedelta(seconds=seen.spacing_seconds + STAMP_SECONDS)


def due(evidence: Evidence) -> Mapping[str, Any] | None:
    """The progress to write now, or None."""
    moment, seen = due_at(evidence), evidence.seen.progress
    if seen is None or moment is None or moment > evidence.now:
        return None
    return to_status(seen.progress, evidence.test) | {"time": conditions.stamp(evidence.now)}


def to_status(progress: Progress, test: DistTest) -> dict[str, Any]:
    """The code under test can write to the log: texts are cut and escaped, and numbers limited to what is possible."""
    suites = frozenset(suite.name for suite in test.spec.suites)
    fields: dict[str, Any] = {
        "step": escaping.short_line(progress.step, STEP_BYTES),
        "nodesJoined": min(progress.nodes_joined, test.spec.nodes),
        "suite": progress.suite if progress.suite in suites else "",
        "currentCase": escaping.short_case_id(progress.current_case),
        "casesDone": min(progress.cases_done, limits.CASES),
        "casesTotal": min(progress.cases_total, limits.CASES),
        "suitesDone": min(progress.suites_done, len(suites)),
        "cases": {key: max(0, min(count, limits.CASES)) for key, count in progress.counts.to_json().items()},
        "failures": [_failure(one, suites) for one in progress.failures[-FAILURES:]],
    }
    while fields["failures"] and size_limits.size(fields) > PROGRESS_BYTES:
        fields["failures"] = fields["failures"][1:]
    return fields | {key: fields[key] or None for key in CLEARED_FIELDS}


def _failure(failure: Failure, suites: frozenset[str]) -> dict[str, Any]:
    fields = {
        "suite": failure.suite if failure.suite in suites else "",
        "case": escaping.short_case_id(failure.case),
        "outcome": failure.outcome.value,
        "ranks": escaping.short_line(failure.ranks, TEXT_BYTES),
        "nodes": [escaping.short_line(node, NODE_NAME_BYTES) for node in failure.nodes[:NODES]],
        "message": escaping.short_line(failure.message, TEXT_BYTES),
    }
    return {key: value for key, value in fields.items() if value or key == "case"}


def _is_running(evidence: Evidence) -> bool:
    test = evidence.test
    return not test.is_finished and not test.is_deleting and evidence.has_whole_gang and not evidence.has_leader_ended


def _without_time(progress: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in progress.items() if value is not None and key != "time"}
