"""What a plan may ask for: one step at a time, since most of them teach something that the next one depends on."""

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
    """Whether the objects that the spec names exist."""

    references: tuple[Reference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuarantine:
    """The list of known failures that the spec names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNodes:
    """What the nodes can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEvents:
    """Why something does not move, in the order given."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """Whether the Job that the cache lacks is gone."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPods:
    """Which pods the Job has, whatever their labels are by now."""

    job_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """The report at the end of the leader's log. `quarantine` is what the gang was told of known failures."""

    leader: PodView
    nonce: str
    quarantine: Lists = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHardware:
    """What is left of these pods for signs of broken hardware: logs, their conditions and those of their nodes."""

    pods: tuple[PodView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService:
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJob:
    """The secret of the attempt is made when this is carried out. These nodes it must not have, those rather not."""

    attempt: int
    quarantine: Lists = field(default_factory=lambda: NOTHING)
    avoid: tuple[str, ...] = ()
    shun: tuple[str, ...] = ()


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
    """See to it that the report stays with the series when the run goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress:
    """Nothing depends on it: where it cannot be written the run goes on without."""

    progress: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt:
    """By this status; the run goes on with another gang, of which nothing is known yet."""

    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """With its pods, and the Service that gave them their names."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRun:
    """Its time to live is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Nothing to do until something happens, or so many seconds have passed."""

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
    | EndAttempt
    | DeleteJob
    | DeleteRun
    | Done
)
