"""A DistTest as the operator uses it: parsed and validated, with all defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from disttest_contract.outcomes import Verdict
from disttest_contract.results.thresholds import Threshold
from disttest_operator.core.api.template import Template

GROUP = "disttest.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

ADHOC_SERIES = "adhoc"  # the series of runs that name none
GPUS_PER_NODE = 8  # if unset
RANKS_WITHOUT_GPUS = 2  # per node
GPU_RESOURCE = "nvidia.com/gpu"

Manifest = dict[str, Any]  # a Kubernetes object to send


class Backend(StrEnum):
    NCCL = "nccl"
    GLOO = "gloo"


class RequiredTransport(StrEnum):
    """The network that a run must use; its values but `any` are those of a report."""

    ANY = "any"
    RDMA = "rdma"
    TCP = "tcp"
    PLUGIN = "plugin"


def ranks_per_node(spec: Mapping[str, Any]) -> int:
    """Of a spec in JSON, with or without the defaults of the API server."""
    return spec.get("ranksPerNode") or spec.get("gpusPerNode", GPUS_PER_NODE) or RANKS_WITHOUT_GPUS


def backend(spec: Mapping[str, Any]) -> str:
    return spec.get("backend") or (Backend.NCCL if spec.get("gpusPerNode", GPUS_PER_NODE) else Backend.GLOO)


class Placement(StrEnum):
    SPREAD = "Spread"  # one pod per node
    ANY = "Any"


class Concurrency(StrEnum):
    """Whether a run waits until older runs of its series have finished."""

    ALLOW = "Allow"
    WAIT = "Wait"


class Phase(StrEnum):
    """For display only: clients should wait for conditions."""

    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    COLLECTING = "Collecting"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A set of cases from one source: a built-in suite, the files of a ConfigMap, or globs of files in the image.

    `select` is an expression of pytest's -k.
    """

    name: str
    builtin: str = ""
    config_map: str = ""
    files: tuple[str, ...] = ()
    select: str = ""
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Deadlines in seconds: to be scheduled and to join, for each attempt; for each case; for the whole run."""

    queue_seconds: int = 1800
    rendezvous_seconds: int = 300
    case_seconds: int = 300
    run_seconds: int = 7200

    @property
    def is_consistent(self) -> bool:
        """Whether a case can use all of its time before the run ends."""
        return self.case_seconds <= self.run_seconds

    def override(self, given: Mapping[str, int]) -> "Timeouts":
        """Replace the fields in `given`. Of case and run the one that is not in `given` follows the other.

        The result is inconsistent only if `given` has both and they contradict each other.
        """
        chosen = replace(self, **given)
        if chosen.is_consistent:
            return chosen
        if "case_seconds" not in given:
            return replace(chosen, case_seconds=chosen.run_seconds)
        if "run_seconds" not in given:
            return replace(chosen, run_seconds=chosen.case_seconds)
        return chosen

    def override_json(self, given: Mapping[str, int]) -> "Timeouts":
        """Like `override`, with the field names of `spec.timeouts`."""
        return self.override({name.replace("Seconds", "_seconds"): seconds for name, seconds in given.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Maximum number of reruns of a failed case (`flaky`), and of retries on other nodes (`infrastructure`)."""

    flaky: int = 1
    infrastructure: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """The claim for files that are too large for the report; without one they are not kept."""

    persistent_volume_claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The ConfigMap with the list of known failures; empty without a list."""

    config_map: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    series: str = ""
    suites: tuple[Suite, ...]
    nodes: int = 1
    gpus_per_node: int = GPUS_PER_NODE
    ranks_per_node: int = 8
    backend: Backend = Backend.NCCL
    transport: RequiredTransport = RequiredTransport.ANY
    image: str
    gpu_resource: str = GPU_RESOURCE
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
    """One run. It is finished as soon as its status has a verdict. `runner_image` is the default image."""

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
        """Whether the runner must be copied into the image."""
        return self.spec.image != self.runner_image

    @property
    def verdict(self) -> Verdict | None:
        return Verdict(self.status["verdict"]) if self.status.get("verdict") else None

    @property
    def is_finished(self) -> bool:
        return self.verdict is not None

    @property
    def attempt(self) -> int:
        """The number of the current or next attempt; of the last one if the run is finished."""
        if self.is_finished:
            return int(self.status.get("attempt", 1))
        return max((int(record["number"]) for record in self.records), default=0) + 1

    @property
    def has_begun(self) -> bool:
        """Whether the Job of this attempt was created."""
        return bool(self.status.get("attempt") == self.attempt)

    @property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """The attempts that have ended, oldest first, as JSON of the status."""
        return tuple(self.status.get("attempts") or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Values of the operator's flags for fields that a DistTest does not set."""

    image: str
    gpu_resource: str = GPU_RESOURCE
    timeouts: Timeouts = Timeouts()
