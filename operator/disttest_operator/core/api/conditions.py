"""Conditions of a DistTest, for `kubectl wait` and other clients, with a sentence for each one and for each phase."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from disttest_contract.text import escaping
from disttest_operator.core.api.model import Phase

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
    """Reasons of GangReady. After an attempt ended, the condition has the reason of that attempt instead."""

    RUNNING = "GangRunning"  # the only one that comes with the status True
    SUSPENDED = "Suspended"
    OLDER_RUN = "OlderRunActive"
    INSUFFICIENT_GPUS = "InsufficientGPUs"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULING = "Scheduling"
    STARTING = "Starting"


class SuspendedReason(StrEnum):
    BY_SPEC = "SpecSuspend"
    QUEUED = "Queued"
    RESUMED = "Resumed"  # by the spec
    ADMITTED = "Admitted"  # by the queue


# For the reference pages and `disttest explain`.
PHASES: Mapping[Phase, str] = {
    Phase.QUEUED: "Not all pods have a node yet, or the run is suspended.",
    Phase.STARTING: "All pods have a node, but not all run.",
    Phase.RUNNING: "All pods run.",
    Phase.COLLECTING: "The leader has ended, and the operator collects the report.",
    Phase.FINISHED: "The run has a verdict.",
}
CONDITIONS: Mapping[ConditionType, str] = {
    ConditionType.SUSPENDED: "The run waits because of spec.suspend or its queue.",
    ConditionType.GANG_READY: "All pods run.",
    ConditionType.RESULTS_COLLECTED: "The operator has read the report.",
    ConditionType.COMPLETE: "The run has the verdict Passed.",
    ConditionType.FAILED: "The run has another verdict.",
    ConditionType.FINISHED: "The run has a verdict, which is the reason of this condition.",
}
GANG_READY_REASONS: Mapping[GangReadyReason, str] = {
    GangReadyReason.RUNNING: "All containers of the gang run.",
    GangReadyReason.SUSPENDED: "A queue or spec.suspend holds the run.",
    GangReadyReason.OLDER_RUN: "An older run of the series is active, and spec.concurrencyPolicy is Wait.",
    GangReadyReason.INSUFFICIENT_GPUS: "The cluster has too few nodes or GPUs for the gang.",
    GangReadyReason.UNSCHEDULABLE: "The scheduler found no node for a pod.",
    GangReadyReason.SCHEDULING: "The scheduler has not assigned all pods yet.",
    GangReadyReason.STARTING: "Images are being pulled and containers created.",
}


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
