"""Conditions of a DistTest: the contract with `kubectl wait` and other tools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from disttest_contract.text import escaping

MESSAGE_BYTES = 2048


class ConditionType(StrEnum):
    """Finished comes with either of Complete and Failed, as batch/v1 names them."""

    SUSPENDED = "Suspended"
    GANG_READY = "GangReady"
    RESULTS_COLLECTED = "ResultsCollected"
    COMPLETE = "Complete"
    FAILED = "Failed"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionState:
    type: ConditionType
    is_true: bool
    reason: str
    message: str


def merge(
    old: Iterable[Mapping[str, Any]], states: Iterable[ConditionState], *, generation: int, now: datetime
) -> list[Any]:
    """The new list: a condition's time changes with its status only; conditions of others stay."""
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
    """The condition of that type, as it was read."""
    return next((entry for entry in status.get("conditions") or () if entry["type"] == type_), None)


def stamp(now: datetime) -> str:
    """As Kubernetes writes times: whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
