"""Conditions of a DistTest, for `kubectl wait` and other clients."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from disttest_contract.text import escaping

MESSAGE_BYTES = 2048


class ConditionType(StrEnum):
    """Finished is true together with Complete or Failed, which have the meaning of those of a Job."""

    SUSPENDED = "Suspended"
    GANG_READY = "GangReady"
    RESULTS_COLLECTED = "ResultsCollected"
    COMPLETE = "Complete"
    FAILED = "Failed"
    FINISHED = "Finished"


class GangReadyReason(StrEnum):
    """Of GangReady. After an attempt that ended it has that attempt's reason instead."""

    RUNNING = "GangRunning"  # the only one that comes with the status True
    SUSPENDED = "Suspended"
    OLDER_RUN = "OlderRun"
    TOO_FEW_GPUS = "TooFewGpus"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULING = "Scheduling"
    STARTING = "Starting"


class SuspendedReason(StrEnum):
    BY_SPEC = "SpecSuspend"
    QUEUED = "Queued"
    RESUMED = "Resumed"  # by the spec
    ADMITTED = "Admitted"  # by the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionState:
    type: ConditionType
    is_true: bool
    reason: str
    message: str


def merge(
    old: Iterable[Mapping[str, Any]], states: Iterable[ConditionState], *, generation: int, now: datetime
) -> list[Any]:
    """Update the conditions `old` with `states`; those of other types stay.

    lastTransitionTime changes only if the status of the condition changes.
    """
    merged = {condition["type"]: dict(condition) for condition in old}
    for state in states:
        word = "True" if state.is_true else "False"
        before = merged.get(state.type.value)
        merged[state.type.value] = {
            "type": state.type.value,
            "status": word,
            "reason": state.reason,
            "message": escaping.short_block(state.message, MESSAGE_BYTES),
            "lastTransitionTime": before["lastTransitionTime"] if before and before["status"] == word else stamp(now),
            "observedGeneration": generation,
        }
    return list(merged.values())


def find(status: Mapping[str, Any], type_: ConditionType) -> Mapping[str, Any] | None:
    return next((entry for entry in status.get("conditions") or () if entry["type"] == type_), None)


def stamp(now: datetime) -> str:
    """Format a time as Kubernetes does, in whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
