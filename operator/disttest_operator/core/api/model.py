"""A DistTest inside the operator: parsed once at the door, defaults filled in, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from disttest_contract.outcomes import Verdict
from disttest_contract.results.thresholds import Threshold
from disttest_operator.core.api.template import Template

GROUP = "disttest.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

Manifest = dict[str, Any]  # a Kubernetes object that we send


class Backend(StrEnum):
    NCCL = "nccl"
    GLOO = "gloo"


class Placement(StrEnum):
    SPREAD = "Spread"  # one pod a node
    ANY = "Any"


class Concurrency(StrEnum):
    """What a run does while an older one of its series goes on."""

    ALLOW = "Allow"
    WAIT = "Wait"


class Phase(StrEnum):
    """For people; the conditions are the contract."""

    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    COLLECTING = "Collecting"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Exactly one source: `builtin`, a suite of the runner; `config_map`, with test files; `files`, globs in the image.

    `select` is an expression of pytest's -k, over any source.
    """

    name: str
    builtin: str = ""
    config_map: str = ""
    files: tuple[str, ...] = ()
    select: str = ""
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Whole seconds. Queue and join per attempt, case per case, run per run."""

    queue_seconds: int = 1800
    join_seconds: int = 300
    case_seconds: int = 300
    run_seconds: int = 7200


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often something is tried again before it counts.

    `flaky`: a case that ended badly, in fresh ranks; `infrastructure`: the run, with a new gang.
    """

    flaky: int = 1
    infrastructure: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Where what is too large for the report is kept; nowhere if empty."""

    persistent_volume_claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Where the list of known failures is; there is none if empty."""

    config_map: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A spec with every default filled in."""

    series: str = ""
    suites: tuple[Suite, ...]
    nodes: int = 1
    gpus_per_node: int = 8
    ranks_per_node: int = 8
    backend: Backend = Backend.NCCL
    image: str
    gpu_resource: str = "nvidia.com/gpu"
    placement: Placement = Placement.SPREAD
    env: tuple[tuple[str, str], ...] = ()
    queue_name: str = ""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    thresholds: tuple[Threshold, ...] = ()
    artifacts: Artifacts = Artifacts()
    quarantine: Quarantine = Quarantine()
    ttl_seconds_after_finished: int | None = None
    concurrency_policy: Concurrency = Concurrency.ALLOW
    suspend: bool = False
    cancel: bool = False
    template: Template = field(default_factory=Template)

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class DistTest:
    """One run. `status` is the object's status as it was read; terminal as soon as `verdict` is set.

    `runner_image` is the operator's, whatever image the run names.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created: datetime
    is_deleting: bool
    spec: Spec
    runner_image: str
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_own_image(self) -> bool:
        """Whether the image need not have the runner in it."""
        return self.spec.image != self.runner_image

    @property
    def verdict(self) -> Verdict | None:
        return Verdict(self.status["verdict"]) if self.status.get("verdict") else None

    @property
    def is_finished(self) -> bool:
        return self.verdict is not None

    @property
    def attempt(self) -> int:
        """The one that goes on or is to come; of a finished run the last."""
        if self.is_finished:
            return int(self.status.get("attempt", 1))
        return max((int(record["number"]) for record in self.records), default=0) + 1

    @property
    def has_begun(self) -> bool:
        """Whether the Job of this attempt was created."""
        return bool(self.status.get("attempt") == self.attempt)

    @property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """Of attempts that have ended, oldest first."""
        return tuple(self.status.get("attempts") or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the operator's flags say where a DistTest says nothing."""

    image: str
    gpu_resource: str = "nvidia.com/gpu"
    timeouts: Timeouts = Timeouts()
