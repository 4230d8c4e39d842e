"""How far a run is, for its status: from the newest line of the leader's log, made harmless, and not too often."""

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
STAMP_SECONDS = 1.0  # by which a time that is written may be earlier than it was: whole seconds
PROGRESS_BYTES = 8 << 10  # of a status, as the API server spells it
TEXT_BYTES = 256
STEP_BYTES = 16
NODE_NAME_BYTES = 253
FIELDS_THAT_GO = ("step", "suite", "currentCase")  # when there is nothing to say: a merge keeps what it is not told of


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTarget:
    """Whose log is to be followed, and how our lines in it can be told from others'."""

    namespace: str
    pod: str
    uid: str
    nonce: str


def spacing_seconds(followed: int) -> float:
    """The more runs are followed, the rarer is each of them written."""
    return max(SPACING_SECONDS, followed / WRITES_PER_SECOND)


def target(evidence: Evidence) -> FollowTarget | None:
    """None while there is nobody to listen to."""
    leader, job = evidence.leader, evidence.seen.job
    if not _goes_on(evidence) or leader is None or job is None or not job.nonce:
        return None
    return FollowTarget(namespace=leader.namespace, pod=leader.name, uid=leader.uid, nonce=job.nonce)


def due_at(evidence: Evidence) -> datetime | None:
    """When the status is to be told; None: it says all there is to say."""
    seen, before = evidence.seen.progress, evidence.test.status.get("progress") or {}
    job = evidence.seen.job
    if seen is None or job is None or seen.nonce != job.nonce or not _goes_on(evidence):
        return None
    if _said(show(seen.told, evidence.test)) == _said(before):
        return None
    written = decoding.time(before.get("time"))
    if written is None or written > evidence.now:  # a clock has jumped
        return evidence.now
    return written + timedelta(seconds=seen.spacing_seconds + STAMP_SECONDS)


def due(evidence: Evidence) -> Mapping[str, Any] | None:
    """What is to be written now."""
    moment, seen = due_at(evidence), evidence.seen.progress
    if seen is None or moment is None or moment > evidence.now:
        return None
    return show(seen.told, evidence.test) | {"time": conditions.stamp(evidence.now)}


def show(told: Progress, test: DistTest) -> dict[str, Any]:
    """The log is next to the code under test: what it says is cut, and numbers are those that a run can have."""
    suites = frozenset(suite.name for suite in test.spec.suites)
    said: dict[str, Any] = {
        "step": escaping.short_line(told.step, STEP_BYTES),
        "nodesJoined": min(told.nodes_joined, test.spec.nodes),
        "suite": told.suite if told.suite in suites else "",
        "currentCase": escaping.short_case_id(told.current_case),
        "casesDone": min(told.cases_done, limits.CASES),
        "casesTotal": min(told.cases_total, limits.CASES),
        "suitesDone": min(told.suites_done, len(suites)),
        "cases": {key: max(0, min(count, limits.CASES)) for key, count in told.counts.to_json().items()},
        "failures": [_failure(one, suites) for one in told.failures[-FAILURES:]],
    }
    while said["failures"] and size_limits.size(said) > PROGRESS_BYTES:
        said["failures"] = said["failures"][1:]
    return said | {key: said[key] or None for key in FIELDS_THAT_GO}


def _failure(told: Failure, suites: frozenset[str]) -> dict[str, Any]:
    said = {
        "suite": told.suite if told.suite in suites else "",
        "case": escaping.short_case_id(told.case),
        "outcome": told.outcome.value,
        "ranks": escaping.short_line(told.ranks, TEXT_BYTES),
        "nodes": [escaping.short_line(node, NODE_NAME_BYTES) for node in told.nodes[:NODES]],
        "message": escaping.short_line(told.message, TEXT_BYTES),
    }
    return {key: value for key, value in said.items() if value or key == "case"}


def _goes_on(evidence: Evidence) -> bool:
    test = evidence.test
    return not test.is_finished and not test.is_deleting and evidence.has_whole_gang and not evidence.has_leader_ended


def _said(progress: Mapping[str, Any]) -> dict[str, Any]:
    """But for when it was said."""
    return {key: value for key, value in progress.items() if value is not None and key != "time"}
