"""Events: one for each transition of a run, derived from the status before and after it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import Verdict
from disttest_operator.core.api import conditions, naming
from disttest_operator.core.api.conditions import ConditionType, GangReadyReason
from disttest_operator.core.api.model import API_VERSION, DistTest, Manifest

NOTE_BYTES = 1024  # the API server's limit
WARNINGS = frozenset({GangReadyReason.INSUFFICIENT_GPUS, GangReadyReason.UNSCHEDULABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Reason, note and type of an event."""

    reason: str
    note: str
    is_warning: bool


def between(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Transition, ...]:
    """In the order in which they happened."""
    found = []
    gang = conditions.find(new, ConditionType.GANG_READY)
    before = conditions.find(old, ConditionType.GANG_READY)
    number = new.get("attempt")
    records = new.get("attempts") or ()
    if not new.get("verdict") and records and records[-1]["number"] != _newest(old):
        last = records[-1]
        note = f"attempt {last['number']}, {last['verdict']} ({last['reason']}): {last['message']}"
        found.append(Transition(reason="AttemptEnded", note=note, is_warning=bool(last.get("charged"))))
    if number and number != old.get("attempt"):
        found.append(Transition(reason="Created", note=f"created the gang of attempt {number}", is_warning=False))
    if gang and _state(gang) != _state(before):
        is_true, reason = gang["status"] == "True", gang["reason"]
        if is_true or reason in WARNINGS:
            # The attempt makes the note unique: a second event with the same note would be a duplicate of the first.
            note = f"attempt {number}: {gang['message']}" if number and number > 1 else gang["message"]
            word = ConditionType.GANG_READY.value if is_true else reason
            found.append(Transition(reason=word, note=note, is_warning=not is_true))
    if new.get("verdict") and not old.get("verdict"):
        cases = new.get("cases") or {}
        marks = "".join(f", {cases[mark]} {mark}" for mark in ("flaky", "quarantined") if cases.get(mark))
        note = f"{new['reason']}{marks}: {new['message']}"
        found.append(Transition(reason=new["verdict"], note=note, is_warning=new["verdict"] != Verdict.PASSED))
    return tuple(found)


def build(test: DistTest, transition: Transition, *, now: datetime, instance: str) -> Manifest:
    """The name is a hash of run, reason and note, so that a retry conflicts and does not create a duplicate."""
    digest = hashlib.sha256(f"{test.uid} {transition.reason} {transition.note}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{test.name}.{digest}", "namespace": test.namespace},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": naming.MANAGED_BY,
        "reportingInstance": instance[:128],
        "action": "Reconcile",
        "type": "Warning" if transition.is_warning else "Normal",
        "reason": transition.reason,
        "note": limits.cut(transition.note, NOTE_BYTES),
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": "DistTest",
            "name": test.name,
            "namespace": test.namespace,
            "uid": test.uid,
        },
    }


def _newest(status: Mapping[str, Any]) -> int:
    records = status.get("attempts") or ()
    return int(records[-1]["number"]) if records else 0


def _state(condition: Mapping[str, Any] | None) -> tuple[str, str]:
    return (condition["status"], condition["reason"]) if condition else ("", "")
