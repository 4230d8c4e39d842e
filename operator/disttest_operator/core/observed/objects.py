"""Views: the small part of each watched object that the operator keeps, parsed once and frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from disttest_contract import limits
from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_contract.transport.termination_message import Summary

LAST_WORDS_BYTES = 1024
CREATING = frozenset({"ContainerCreating", "PodInitializing"})  # waiting reasons that are not errors

Body = Mapping[str, Any]  # an object as the API server sent it


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"  # of a node whose kubelet does not report; of other objects such conditions are not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    reason: str
    message: str
    status: ConditionStatus
    since: datetime | None

    @property
    def is_true(self) -> bool:
        return self.status is ConditionStatus.TRUE


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    namespace: str
    name: str
    uid: str
    resource_version: int
    owner_uid: str
    run: str
    created: datetime
    started: datetime | None  # changes each time the Job is resumed
    is_deleting: bool
    is_suspended: bool
    nonce: str
    quarantine: Lists = field(default_factory=lambda: NOTHING)  # the quarantine list that the gang received
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return any(name in self.conditions for name in ("Complete", "Failed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """How a container ended. `summary` is what the agent wrote as termination message; any other is in `message`."""

    code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    at: datetime | None = None
    summary: Summary | None = None

    @property
    def last_words(self) -> str:
        """The agent's message, else the end of the log or the runtime's error, cut and in one line."""
        return self.summary.message if self.summary else limits.cut(" ".join(self.message.split()), LAST_WORDS_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """`is_gone`: the API server no longer has the pod, and this is its state in the last event.

    `started` and `exit` are of the test container, `injected` is the end of the init container that copies the runner,
    and the `waiting_…` fields are of the first container that has not started.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int
    run: str
    run_uid: str
    attempt: int
    index: int
    created: datetime
    node: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    is_deleting: bool = False
    is_gone: bool = False
    is_unwatched: bool = False  # its labels were changed, and events for it do not arrive
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    started: datetime | None = None
    exit: ContainerExit | None = None
    injected: ContainerExit | None = None
    waiting_image: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    waiting_since: datetime | None = None  # by the operator's clock: Kubernetes has no such time
    ending_since: datetime | None = None  # by the operator's clock: those of nodes differ

    def waits_as(self, before: "PodView") -> bool:
        """Whether this is the same wait: that of an image that cannot be pulled starts after that of its pull."""
        was_creating, is_creating = (pod.waiting_reason in CREATING for pod in (before, self))
        is_same_image = before.waiting_image == self.waiting_image
        return bool(before.waiting_reason) and is_same_image and was_creating == is_creating

    @property
    def has_ended(self) -> bool:
        return self.is_gone or self.exit is not None or self.phase in {"Succeeded", "Failed"}

    @property
    def went_silently(self) -> bool:
        """Whether it left the watch without a reason, as pods do whose labels were removed: it may still run."""
        has_reason = self.is_deleting or self.exit or self.disruption or self.phase in {"Succeeded", "Failed"}
        return self.is_gone and not has_reason

    @property
    def disruption(self) -> Condition | None:
        condition = self.conditions.get("DisruptionTarget")
        return condition if condition and condition.is_true else None

    @property
    def is_ending(self) -> bool:
        """It can no longer take part, whether it succeeded or failed."""
        return self.has_ended or self.is_deleting or self.disruption is not None

    @property
    def is_lost(self) -> bool:
        """It can no longer take part, and did not succeed."""
        return self.is_ending and not (self.exit and self.exit.code == 0)

    @property
    def has_started(self) -> bool:
        return self.started is not None

    @property
    def is_scheduled(self) -> bool:
        return bool(self.node)

    @property
    def is_unschedulable(self) -> bool:
        """The scheduler found no node for it."""
        scheduled = self.conditions.get("PodScheduled")
        return not self.node and scheduled is not None and not scheduled.is_true

    @property
    def where(self) -> str:
        return f"pod {self.name}" + (f" on node {self.node}" if self.node else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    is_schedulable: bool = True  # not cordoned


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    reason: str
    message: str
    about: str  # kind/name
