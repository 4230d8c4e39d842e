"""Outcomes of cases, verdicts of suites and runs, their reasons and exit codes: closed sets."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Self


class Explained(StrEnum):
    """Words with one sentence each, for the API reference, help and the report page."""

    description: str

    def __new__(cls, value: str, description: str = "") -> Self:
        word = str.__new__(cls, value)
        word._value_, word.description = value, description
        return word


class Outcome(Explained):
    """How one case ended, over all ranks."""

    PASSED = "passed", "The case passed on every rank."
    FAILED = "failed", "The case raised an exception."
    ERRORED = "errored", "Its setup, teardown or collection raised an exception."
    CRASHED = "crashed", "A rank died during the case."
    HUNG = "hung", "The case exceeded timeouts.caseSeconds."
    SKIPPED = "skipped", "A rank skipped the case, and none failed."
    XFAILED = "xfailed", "The case failed, as the suite expects."
    XPASSED = "xpassed", "The case passed although the suite expects a failure."  # not strict
    NOT_RUN = (
        "notRun",
        "The case did not start, or the end of the run interrupted it.",
    )  # its world is too large, for example


# The worst rank decides a case. Skipped is worse than passed: a case that some ranks skipped has not passed.
WORST_FIRST = (
    Outcome.CRASHED,
    Outcome.HUNG,
    Outcome.ERRORED,
    Outcome.FAILED,
    Outcome.NOT_RUN,
    Outcome.SKIPPED,
    Outcome.XPASSED,
    Outcome.XFAILED,
    Outcome.PASSED,
)
BAD = frozenset({Outcome.CRASHED, Outcome.HUNG, Outcome.ERRORED, Outcome.FAILED})


def worst(outcomes: Iterable[Outcome], ranks: int) -> Outcome:
    """Merge the outcomes of `ranks` ranks; a missing one counts as crashed, and without ranks the case did not run."""
    reported = list(outcomes)
    if ranks <= 0:
        return Outcome.NOT_RUN
    if len(reported) < ranks:
        return Outcome.CRASHED
    seen = set(reported)
    return next(outcome for outcome in WORST_FIRST if outcome in seen)


class Verdict(Explained):
    """The result of a suite or a run. The verdict of a run never changes."""

    PASSED = "Passed", "A case of each suite passed, and none failed outside of quarantine."
    TESTS_FAILED = "TestsFailed", "A case failed, errored or crashed."
    HUNG = "Hung", "A case exceeded timeouts.caseSeconds."
    TIMED_OUT = "TimedOut", "The run exceeded timeouts.runSeconds."
    INFRA_FAILED = "InfraFailed", "The queue, a node or the network prevented the run."
    ERRORED = "Errored", "The run is not possible as written."
    CANCELLED = "Cancelled", "A user cancelled the run."


# The first of these that a part has is the verdict of the run. Cancelled first: a user requested it.
VERDICTS_WORST_FIRST = (
    Verdict.CANCELLED,
    Verdict.INFRA_FAILED,
    Verdict.ERRORED,
    Verdict.TIMED_OUT,
    Verdict.HUNG,
    Verdict.TESTS_FAILED,
    Verdict.PASSED,
)


class Reason(Explained):
    """The reason of a verdict. At most limits.REASONS: it is a metric label, and users write alerts on it."""

    ALL_CASES_PASSED = "AllCasesPassed", "A case of each suite passed, and none failed outside of quarantine."
    CASES_FAILED = "CasesFailed", "A case failed or errored."
    CASES_CRASHED = "CasesCrashed", "A rank died during a case."
    CASES_HUNG = "CasesHung", "A case exceeded timeouts.caseSeconds."
    NO_CASES_COLLECTED = "NoCasesCollected", "A suite has no cases."
    NO_CASES_PASSED = "NoCasesPassed", "No case of a suite passed."
    COLLECTION_FAILED = "CollectionFailed", "A suite could not be collected."  # an import error, for example
    COLLECTION_DIFFERS = "CollectionDiffers", "The ranks collected different cases."
    UNKNOWN_SUITE = "UnknownSuite", "The runner has no such built-in suite."
    INVALID_SPEC = "InvalidSpec", "The spec is not valid."
    QUEUE_TIMEOUT = "QueueTimeout", "The queue or an older run blocked the run for queueSeconds."
    GANG_TIMEOUT = "GangTimeout", "Not all pods were running within queueSeconds."  # after admission
    INSUFFICIENT_GPUS = "InsufficientGPUs", "The cluster has too few nodes or GPUs."
    RENDEZVOUS_TIMEOUT = "RendezvousTimeout", "Pods did not connect to the leader within rendezvousSeconds."
    GANG_LOST = "GangLost", "The leader lost the connection to a pod."
    GANG_FAILED_TO_START = "GangFailedToStart", "Ranks could not be started."
    NODES_DIFFER = "NodesDiffer", "Nodes have different software versions or GPUs."
    DRIVER_TOO_OLD = "DriverTooOld", "The GPU driver does not support the CUDA version of torch."
    WRONG_TRANSPORT = "WrongTransport", "The ranks did not use the network of spec.transport."
    GPU_UNHEALTHY = "GPUUnhealthy", "A GPU is faulty, or CUDA cannot be initialized."
    SHARED_NODE = "SharedNode", "Two pods with placement Spread ran on one node."
    RUN_TIMEOUT = "RunTimeout", "The run exceeded timeouts.runSeconds."
    TERMINATED = "Terminated", "The pods received SIGTERM."
    IMAGE_UNAVAILABLE = "ImageUnavailable", "An image cannot be pulled."
    CONTAINER_CONFIG_ERROR = "ContainerConfigError", "The kubelet could not configure a container."
    CONTAINER_START_ERROR = "ContainerStartError", "A container or its runner could not be started."
    REFERENCE_NOT_FOUND = "ReferenceNotFound", "A ConfigMap, ServiceAccount or PersistentVolumeClaim does not exist."
    PODS_FORBIDDEN = "PodsForbidden", "A quota, Pod Security or an admission policy rejected the pods."
    NAME_CONFLICT = "NameConflict", "The name of a required object is already in use."
    OUT_OF_MEMORY = "OutOfMemory", "A container exceeded its memory limit."
    DISRUPTED = "Disrupted", "A pod was preempted, evicted or drained."
    SUSPENDED = "Suspended", "The queue or a user suspended the run."
    NODE_LOST = "NodeLost", "A node stopped responding."
    NODE_UNHEALTHY = "NodeUnhealthy", "A node has signs of broken hardware."
    POD_KILLED = "PodKilled", "A container was killed for an unknown reason."
    POD_DELETED = "PodDeleted", "A pod was deleted for an unknown reason."
    NODE_REJECTED_POD = "NodeRejectedPod", "The kubelet rejected a pod."  # UnexpectedAdmissionError, OutOf<resource>
    JOB_DELETED = "JobDeleted", "The Job of the run was deleted."
    REPORT_MISSING = "ReportMissing", "The leader finished without a report."
    REPORT_INVALID = "ReportInvalid", "The report is damaged or does not match the run."
    RUNNER_ERROR = "RunnerError", "The runner has a bug, or its version differs from the operator's."
    CANCELLED = "Cancelled", "A user cancelled the run."


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of cases by outcome; `flaky` is a part of the passed ones, `quarantined` of the bad ones."""

    by_outcome: Mapping[Outcome, int] = field(default_factory=dict)
    flaky: int = 0
    quarantined: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], flaky: int = 0, quarantined: int = 0) -> Self:
        return cls(by_outcome=dict(Counter(outcomes)), flaky=flaky, quarantined=quarantined)

    @classmethod
    def sum(cls, parts: Iterable["Counts"]) -> Self:
        total: Counter[Outcome] = Counter()
        flaky = quarantined = 0
        for part in parts:
            flaky, quarantined = flaky + part.flaky, quarantined + part.quarantined
            total.update(part.by_outcome)
        return cls(by_outcome={key: n for key, n in total.items() if n}, flaky=flaky, quarantined=quarantined)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """Parse what `to_json` writes; unknown keys are ignored, missing and negative numbers are 0."""
        numbers = {key: max(0, value) for key, value in data.items() if type(value) is int}
        counted = {outcome: numbers[outcome.value] for outcome in Outcome if numbers.get(outcome.value)}
        return cls(by_outcome=counted, flaky=numbers.get("flaky", 0), quarantined=numbers.get("quarantined", 0))

    def __getitem__(self, outcome: Outcome) -> int:
        return self.by_outcome.get(outcome, 0)

    @property
    def total(self) -> int:
        return sum(self.by_outcome.values())

    @property
    def bad(self) -> int:
        return sum(self[outcome] for outcome in BAD)

    @property
    def red(self) -> int:
        """Bad cases outside of quarantine."""
        return self.bad - self.quarantined

    def to_json(self) -> dict[str, int]:
        """Include zeros: an absent number would mean unknown."""
        outcomes = {outcome.value: self[outcome] for outcome in Outcome}
        return {"total": self.total, **outcomes, "flaky": self.flaky, "quarantined": self.quarantined}


def judge(counts: Counts, excused: Mapping[Outcome, int] | None = None) -> tuple[Verdict, Reason]:
    """Return the verdict of cases that have run: the first rule that matches, and only proven success passes.

    `excused` are bad cases in quarantine: they neither fail nor pass a suite.
    """
    red = Counts(by_outcome={outcome: counts[outcome] - (excused or {}).get(outcome, 0) for outcome in BAD})
    rules = (
        (counts.total == 0, Verdict.ERRORED, Reason.NO_CASES_COLLECTED),
        (red[Outcome.HUNG] > 0, Verdict.HUNG, Reason.CASES_HUNG),
        (red[Outcome.CRASHED] > 0, Verdict.TESTS_FAILED, Reason.CASES_CRASHED),
        (red.total > 0, Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        (counts[Outcome.PASSED] == 0, Verdict.ERRORED, Reason.NO_CASES_PASSED),
    )
    return next(
        ((verdict, reason) for matched, verdict, reason in rules if matched),
        (Verdict.PASSED, Reason.ALL_CASES_PASSED),
    )


class ExitCode(IntEnum):
    PASSED = 0
    TESTS_FAILED = 10  # there is a result, and it is bad
    INFRASTRUCTURE = 20  # worth another attempt
    CONFIGURATION = 30  # another attempt would end in the same way


EXIT_CODES = {
    Verdict.PASSED: ExitCode.PASSED,
    Verdict.TESTS_FAILED: ExitCode.TESTS_FAILED,
    Verdict.HUNG: ExitCode.TESTS_FAILED,
    Verdict.TIMED_OUT: ExitCode.TESTS_FAILED,
    Verdict.INFRA_FAILED: ExitCode.INFRASTRUCTURE,
    Verdict.CANCELLED: ExitCode.INFRASTRUCTURE,
    Verdict.ERRORED: ExitCode.CONFIGURATION,
}
