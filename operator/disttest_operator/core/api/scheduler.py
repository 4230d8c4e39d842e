"""Batch schedulers: what puts the Job of a run into a queue, and how a Job that waits there is recognised.

No other module of the operator and the command line depends on Kueue: another scheduler is one more class and one more
row of SCHEDULERS. The module is in `api` because `observed` recognises a waiting Job by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class SchedulingSpec(Protocol):
    """The fields of a spec that select a scheduler."""

    @property
    def queue_name(self) -> str: ...


class Scheduler(Protocol):
    def is_selected(self, spec: SchedulingSpec) -> bool: ...

    def prepare(self, job: dict[str, Any], spec: SchedulingSpec) -> dict[str, Any]:
        """Return the Job to create: the given manifest with this scheduler's labels, annotations and fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kueue:
    api_group: str = "kueue.x-k8s.io"
    queue_resource: str = "localqueues"  # what spec.queueName names

    @property
    def label_prefix(self) -> str:
        """Users cannot set labels that start with it."""
        return f"{self.api_group}/"

    def is_selected(self, spec: SchedulingSpec) -> bool:
        return bool(spec.queue_name)

    def prepare(self, job: dict[str, Any], spec: SchedulingSpec) -> dict[str, Any]:
        """Suspended, since Kueue resumes what it admits, and without Kueue the run must not jump the queue."""
        metadata = job["metadata"]
        labels = metadata["labels"] | {f"{self.label_prefix}queue-name": spec.queue_name}
        return job | {"metadata": metadata | {"labels": labels}, "spec": job["spec"] | {"suspend": True}}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQueue:
    """The default scheduler of Kubernetes: it binds pods as soon as nodes have room for them."""

    def is_selected(self, spec: SchedulingSpec) -> bool:
        return not spec.queue_name

    def prepare(self, job: dict[str, Any], spec: SchedulingSpec) -> dict[str, Any]:
        del spec
        return job


KUEUE = Kueue()
SCHEDULERS: tuple[Scheduler, ...] = (KUEUE, NoQueue())  # the first one that the spec selects


def of(spec: SchedulingSpec) -> Scheduler:
    return next(scheduler for scheduler in SCHEDULERS if scheduler.is_selected(spec))


def is_waiting(job: Mapping[str, Any]) -> bool:
    """Whether a queue, or a user, holds back this Job.

    `suspend` is the protocol of Kubernetes for queues: Kueue sets it to false when it admits a Job, and to true again
    when it evicts one, whose pods then end.
    """
    return bool(job["spec"].get("suspend"))
