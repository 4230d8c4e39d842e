"""Earlier attempts of a run: the time and retries that they used, the nodes they suspect, when the next one starts."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.api import conditions, naming, schema
from disttest_operator.core.api.conditions import SuspendedReason
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed.decoding import time as parse
from disttest_operator.core.observed.objects import JobView

RECORDS = 8  # kept in a status
MIN_RUN_SECONDS = 60  # of an attempt, however long the earlier ones took
BACKOFF_FIRST_SECONDS = 10
BACKOFF_MAX_SECONDS = 300
BACKOFF_DOUBLINGS = 5  # enough to reach the maximum
JITTER = 0.5

Record = Mapping[str, Any]  # one element of status.attempts


def with_lost_records(test: DistTest, jobs: Iterable[JobView]) -> DistTest:
    """Restore the record of the attempt before the newest Job if a client removed records from the status.

    Removed records must neither end the gang nor allow more retries.
    """
    numbers = [_number(test, job) for job in jobs if not job.is_deleting]
    newest = max(numbers, default=0)
    if test.is_finished or newest <= test.attempt:
        return test
    message = f"the record was removed from the status; Job {naming.job(test, newest)} shows that the attempt existed"
    record = {
        "number": newest - 1,
        "job": naming.job(test, newest - 1),
        "verdict": Verdict.INFRA_FAILED.value,
        "reason": Reason.JOB_DELETED.value,
        "message": message,
        "charged": True,
    }
    return replace(test, status={**test.status, "attempts": [*test.records, record][-RECORDS:]})


def _number(test: DistTest, job: JobView) -> int:
    """0 if the Job's name is not one that the operator gives."""
    digits = job.name.removeprefix(f"{test.name}-a")
    return int(digits) if digits.isascii() and digits.isdecimal() and job.name == f"{test.name}-a{digits}" else 0


def is_charged(record: Record) -> bool:
    return bool(record.get("charged"))


def retries_left(test: DistTest) -> int:
    return max(0, test.spec.retries.infrastructure - sum(map(is_charged, test.records)))


def run_seconds_left(test: DistTest) -> int:
    """What is left of spec.timeouts.runSeconds, which all attempts share; uncharged attempts do not count."""
    used_seconds = 0.0
    for record in filter(is_charged, test.records):
        started, ended = parse(record.get("startTime")), parse(record.get("completionTime"))
        if started and ended:
            used_seconds += max(0.0, (ended - started).total_seconds())
    total = test.spec.timeouts.run_seconds
    return min(total, max(MIN_RUN_SECONDS, total - int(used_seconds)))


def queued_since(test: DistTest, now: datetime) -> datetime:
    """Start of the wait for nodes: releasing half a gang does not restart it, spec.suspend does."""
    since = test.created
    for record in reversed(test.records):
        ended = parse(record.get("completionTime"))
        if record.get("reason") != Reason.GANG_TIMEOUT and ended:
            since = max(since, ended)
            break
    suspended = conditions.find(test.status, conditions.ConditionType.SUSPENDED)
    if not suspended or suspended["reason"] not in {SuspendedReason.BY_SPEC, SuspendedReason.RESUMED}:
        return since
    resumed = now if suspended["status"] == "True" else parse(suspended["lastTransitionTime"])
    return max(since, resumed) if resumed else since


def not_before(test: DistTest) -> datetime | None:
    """A run that released its nodes waits before it tries again: exponential backoff with jitter."""
    released = list(takewhile(lambda record: record.get("reason") == Reason.GANG_TIMEOUT, reversed(test.records)))
    ended = parse(released[0].get("completionTime")) if released else None
    if ended is None:
        return None
    pause_seconds = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2 ** min(len(released) - 1, BACKOFF_DOUBLINGS))
    digest = hashlib.sha256(f"{test.uid} {test.attempt}".encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return ended + timedelta(seconds=pause_seconds * (1 - JITTER + 2 * JITTER * share))


def suspects(test: DistTest) -> tuple[str, ...]:
    return tuple(filter(_can_be_a_node, (str(entry["name"]) for entry in test.status.get("suspectNodes") or ())))


def nodes_used(test: DistTest) -> tuple[str, ...]:
    """Nodes of the attempts that failed."""
    lost = filter(is_charged, test.records)
    return tuple(filter(_can_be_a_node, dict.fromkeys(node for record in lost for node in record.get("nodes") or ())))


def _can_be_a_node(name: str) -> bool:
    """The API server rejects a Job with another name in its affinity."""
    return schema.matches(schema.DNS_SUBDOMAIN, name)


def keep(records: tuple[Record, ...], record: Record) -> list[Record]:
    """At most RECORDS: uncharged ones are dropped first, then the oldest, since charged ones count as retries."""
    every = [*records, record]
    excess = len(every) - RECORDS
    for one in [one for one in every[:-1] if not is_charged(one)][: max(0, excess)]:
        every.remove(one)
    return every[-RECORDS:]


def words(record: Record) -> str:
    return f"attempt {record['number']} ended ({record['reason']}): {record.get('message', '')}"


def case_in_flight(record: Record) -> str:
    return str((record.get("firstFailure") or {}).get("case", ""))


def queue_deadline(test: DistTest, now: datetime) -> datetime:
    return queued_since(test, now) + timedelta(seconds=test.spec.timeouts.queue_seconds)


def run_deadline(test: DistTest, started: datetime, *, grace_seconds: float) -> datetime:
    """Later than the runner's own deadline, in case the runner does not end the run."""
    return started + timedelta(seconds=test.spec.timeouts.rendezvous_seconds + run_seconds_left(test) + grace_seconds)


def deadline_of(test: DistTest, now: datetime, *, grace_seconds: float) -> datetime | None:
    """The deadline of the wait for nodes, or of the run once it has started; None while `spec.suspend` is true."""
    if test.spec.suspend:
        return None
    if started := parse(test.status.get("startTime")):
        return run_deadline(test, started, grace_seconds=grace_seconds)
    return queue_deadline(test, now)
