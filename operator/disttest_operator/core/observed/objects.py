"""What the operator keeps of the objects it watches: parsed once, frozen, a small part of the body."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from disttest_contract import limits
from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_contract.transport.termination_message import Summary

LAST_WORDS_BYTES = 1024
# Reasons of kubelets for which a container waits although nothing is wrong.
IN_THE_MAKING = frozenset({"ContainerCreating", "PodInitializing"})

Body = Mapping[str, Any]  # an object as the API server sent it


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One that is not known is not true. Only those of nodes can be unknown, of others they are left out."""

    reason: str
    message: str
    is_true: bool
    since: datetime | None
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    namespace: str
    name: str
    uid: str
    resource_version: int
    owner_uid: str
    run: str
    created: datetime
    started: datetime | None  # anew at each resumption
    is_deleting: bool
    is_suspended: bool
    nonce: str
    quarantine: Lists = field(default_factory=lambda: NOTHING)  # what the gang was told of known failures
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return any(name in self.conditions for name in ("Complete", "Failed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """How the container ended. `summary` is what the agent left; `message` is all of it if it is no summary."""

    code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    at: datetime | None = None
    summary: Summary | None = None

    @property
    def last_words(self) -> str:
        """What the agent said last, else what the kubelet has of its log or of the runtime; cut, in one line."""
        return self.summary.message if self.summary else limits.cut(" ".join(self.message.split()), LAST_WORDS_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """`is_gone`: the API server no longer has it; this is what its last event said.

    `started` and `exit` are of the test's container, `injected` is the end of the one that brings it the runner; what
    waits is the first container that has not started.
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
    is_unwatched: bool = False  # somebody changed its labels: no event will tell of it
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    started: datetime | None = None  # the container
    exit: ContainerExit | None = None
    injected: ContainerExit | None = None
    waiting_image: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    waiting_since: datetime | None = None  # by our clock: Kubernetes does not tell since when
    ending_since: datetime | None = None  # by our clock: nodes' clocks differ

    def waits_as(self, before: "PodView") -> bool:
        """Whether it waits as it did; that an image cannot be had is another wait than the one in which it came."""
        was_well, is_well = (pod.waiting_reason in IN_THE_MAKING for pod in (before, self))
        return bool(before.waiting_reason) and before.waiting_image == self.waiting_image and was_well == is_well

    @property
    def has_ended(self) -> bool:
        return self.is_gone or self.exit is not None or self.phase in {"Succeeded", "Failed"}

    @property
    def went_silently(self) -> bool:
        """As one does whose labels somebody removes: it is out of the watch's sight, and may be alive."""
        is_told = self.is_deleting or self.exit or self.disruption or self.phase in {"Succeeded", "Failed"}
        return self.is_gone and not is_told

    @property
    def disruption(self) -> Condition | None:
        condition = self.conditions.get("DisruptionTarget")
        return condition if condition and condition.is_true else None

    @property
    def is_ending(self) -> bool:
        """It cannot take part any more, for good or bad."""
        return self.has_ended or self.is_deleting or self.disruption is not None

    @property
    def is_lost(self) -> bool:
        """It cannot take part any more, and not because all is done."""
        return self.is_ending and not (self.exit and self.exit.code == 0)

    @property
    def has_started(self) -> bool:
        return self.started is not None

    @property
    def is_scheduled(self) -> bool:
        return bool(self.node)

    @property
    def is_unschedulable(self) -> bool:
        """The scheduler has looked for a node and found none."""
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
    is_schedulable: bool = True  # nobody has cordoned it


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    reason: str
    message: str
    about: str  # kind/name
