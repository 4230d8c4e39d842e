"""What earlier attempts of a run mean for the next one: what they used up, whom they blame, when to begin again."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.api import conditions, naming, schema
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.decoding import time as parse
from disttest_operator.core.observed.objects import JobView

# Reasons of the condition Suspended.
BY_SPEC = "SpecSuspend"
IN_QUEUE = "Queued"
RESUMED = "Resumed"  # by the spec
ADMITTED = "Admitted"  # by its queue

RECORDS = 8  # that a status keeps
LEAST_RUN_SECONDS = 60  # for an attempt, however long those before it took
BACKOFF_FIRST_SECONDS = 10
BACKOFF_MAX_SECONDS = 300
BACKOFF_DOUBLINGS = 5  # beyond which the maximum is reached anyway
JITTER = 0.5

Record = Mapping[str, Any]  # one element of status.attempts


def with_lost_records(test: DistTest, jobs: Iterable[JobView]) -> DistTest:
    """A Job of a later attempt than the status knows of: records were removed from it, by somebody, after the Job came.

    The gang is not to be ended for that, and retries that were used up are not to come back.
    """
    numbers = [_number(test, job) for job in jobs if not job.is_deleting]
    newest = max(numbers, default=0)
    if test.is_finished or newest <= test.attempt:
        return test
    message = f"its record was removed from the status; Job {naming.job(test, newest)} shows that there was one"
    record = {
        "number": newest - 1,
        "job": naming.job(test, newest - 1),
        "verdict": Verdict.INFRA_FAILED.value,
        "reason": Reason.JOB_MISSING.value,
        "message": message,
        "charged": True,
    }
    return replace(test, status={**test.status, "attempts": [*test.records, record][-RECORDS:]})


def _number(test: DistTest, job: JobView) -> int:
    """0 for a Job that is not named as we name them."""
    digits = job.name.removeprefix(f"{test.name}-a")
    return int(digits) if digits.isascii() and digits.isdecimal() and job.name == f"{test.name}-a{digits}" else 0


def is_charged(record: Record) -> bool:
    return bool(record.get("charged"))


def retries_left(test: DistTest) -> int:
    return max(0, test.spec.retries.infrastructure - sum(map(is_charged, test.records)))


def run_seconds_left(test: DistTest) -> int:
    """Of spec.timeouts.runSeconds, which is for all attempts; what the nodes were taken away from is not counted."""
    used_seconds = 0.0
    for record in filter(is_charged, test.records):
        began, ended = parse(record.get("startTime")), parse(record.get("completionTime"))
        if began and ended:
            used_seconds += max(0.0, (ended - began).total_seconds())
    whole = test.spec.timeouts.run_seconds
    return min(whole, max(LEAST_RUN_SECONDS, whole - int(used_seconds)))


def queued_since(test: DistTest, now: datetime) -> datetime:
    """When the wait for nodes began: half a gang that was given back goes on waiting, spec.suspend begins it anew."""
    since = test.created
    for record in reversed(test.records):
        ended = parse(record.get("completionTime"))
        if record.get("reason") != Reason.GANG_TIMEOUT and ended:
            since = max(since, ended)
            break
    suspended = conditions.find(test.status, conditions.ConditionType.SUSPENDED)
    if not suspended or suspended["reason"] not in {BY_SPEC, RESUMED}:
        return since
    resumed = now if suspended["status"] == "True" else parse(suspended["lastTransitionTime"])
    return max(since, resumed) if resumed else since


def not_before(test: DistTest) -> datetime | None:
    """Whoever gave half a gang back leaves the nodes to others for a while: longer each time, no two runs alike."""
    times = 0
    for record in reversed(test.records):
        if record.get("reason") != Reason.GANG_TIMEOUT:
            break
        times += 1
    ended = parse(test.records[-1].get("completionTime")) if times else None
    if ended is None:
        return None
    pause_seconds = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2 ** min(times - 1, BACKOFF_DOUBLINGS))
    digest = hashlib.sha256(f"{test.uid} {test.attempt}".encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return ended + timedelta(seconds=pause_seconds * (1 - JITTER + 2 * JITTER * share))


def suspects(test: DistTest) -> tuple[str, ...]:
    """Nodes that an attempt of this run blamed."""
    return tuple(filter(_can_be_a_node, (str(entry["name"]) for entry in test.status.get("suspectNodes") or ())))


def nodes_used(test: DistTest) -> tuple[str, ...]:
    """By attempts that failed."""
    lost = filter(is_charged, test.records)
    return tuple(filter(_can_be_a_node, dict.fromkeys(node for record in lost for node in record.get("nodes") or ())))


def _can_be_a_node(name: str) -> bool:
    """A Job with another name in its affinity would be refused."""
    return schema.matches(schema.DNS_SUBDOMAIN, name)


def keep(records: tuple[Record, ...], record: Record) -> list[Record]:
    """The newest, and before all others those that were charged: they count."""
    every = [*records, record]
    excess = len(every) - RECORDS
    for one in [one for one in every[:-1] if not is_charged(one)][: max(0, excess)]:
        every.remove(one)
    return every[-RECORDS:]


def words(record: Record) -> str:
    return f"attempt {record['number']} ended ({record['reason']}): {record.get('message', '')}"


def case_in_flight(record: Record) -> str:
    return str((record.get("firstFailure") or {}).get("case", ""))


def deadline_of(test: DistTest, now: datetime, *, grace_seconds: float) -> datetime | None:
    """The end of its queue or of its run, whichever it is in; None while `spec.suspend` holds it."""
    timeouts = test.spec.timeouts
    if test.spec.suspend:
        return None
    if started := decoding.time(test.status.get("startTime")):
        seconds = timeouts.join_seconds + run_seconds_left(test) + grace_seconds
        return started + timedelta(seconds=seconds)
    return queued_since(test, now) + timedelta(seconds=timeouts.queue_seconds)
