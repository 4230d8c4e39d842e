"""The steps of the plan of a run, one at a time: most of them observe what decides the next one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.observed.evidence import Reference
from disttest_operator.core.observed.objects import PodView
from disttest_operator.core.series.run_results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReferences:
    """Check that the objects that the spec names exist."""

    references: tuple[Reference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuarantine:
    """Read the list of known failures that the spec names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNodes:
    """Read the nodes' labels, conditions and capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEvents:
    """Read the events of these objects, in this order: they explain why something does not start."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """Read the Job, which is not in the cache, to see whether it exists."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPods:
    """List the pods of the Job by owner, since their labels may have changed."""

    job_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """Read the report at the end of the leader's log. `quarantine` is the quarantine list that the gang received."""

    leader: PodView
    nonce: str
    quarantine: Lists = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHardware:
    """Search logs and conditions of these pods, and conditions of their nodes, for signs of broken hardware."""

    pods: tuple[PodView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService:
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJob:
    """Create the Job: never on the nodes to `avoid`, and on those to `avoid_if_possible` only if no others are free.

    The nonce of the attempt is made when the step is carried out.
    """

    attempt: int
    quarantine: Lists = field(default_factory=lambda: NOTHING)
    avoid: tuple[str, ...] = ()
    avoid_if_possible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """Store the report that was read under this name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Count the run in its ledger, once."""

    series: str
    entry: Mapping[str, Any]
    results: Results


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepReport:
    """Make the series an owner of the report, so that the report outlives the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """With `ends_attempt` the run continues with another gang, for which nothing has been observed yet."""

    status: Mapping[str, Any]
    ends_attempt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress:
    """The run continues if it cannot be written."""

    progress: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete the Job, its pods and their Service."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRun:
    """Delete the DistTest, whose time to live is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Nothing to do until something changes, or until requeue_seconds have passed."""

    requeue_seconds: float | None = None


Step = (
    ReadReferences
    | ReadQuarantine
    | ReadNodes
    | ReadEvents
    | ReadJob
    | ReadPods
    | ReadReport
    | SearchHardware
    | CreateService
    | CreateJob
    | WriteReport
    | Fold
    | KeepReport
    | WriteStatus
    | WriteProgress
    | DeleteJob
    | DeleteRun
    | Done
)
