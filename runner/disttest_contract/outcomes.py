"""Outcomes of cases, verdicts of suites and runs, their reasons and exit codes: closed sets."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Self


class Outcome(StrEnum):
    """How one case ended, over all ranks."""

    PASSED = "passed"
    FAILED = "failed"  # an assertion or exception in the case itself
    ERRORED = "errored"  # set-up, tear-down or collection raised an exception
    CRASHED = "crashed"  # a rank died during the case
    HUNG = "hung"  # the case's deadline passed
    SKIPPED = "skipped"  # a rank skipped it, and no rank did worse
    XFAILED = "xfailed"  # failed as the suite expects
    XPASSED = "xpassed"  # passed although the suite expects a failure; not strict
    NOT_RUN = "notRun"  # it never started (its world is too large or zero, for example), or the run ended during it


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
    """Merge the outcomes of `ranks` ranks; a missing one counts as crashed, and a world of no ranks ran nothing."""
    reported = list(outcomes)
    if ranks <= 0:
        return Outcome.NOT_RUN
    if len(reported) < ranks:
        return Outcome.CRASHED
    seen = set(reported)
    return next(outcome for outcome in WORST_FIRST if outcome in seen)


class Verdict(StrEnum):
    """The result of a suite or a run. The verdict of a run never changes."""

    PASSED = "Passed"
    TESTS_FAILED = "TestsFailed"
    HUNG = "Hung"
    TIMED_OUT = "TimedOut"
    INFRA_FAILED = "InfraFailed"
    ERRORED = "Errored"
    CANCELLED = "Cancelled"


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


class Reason(StrEnum):
    """The reason of a verdict. At most 40: it is a metric label, and users write alerts on it."""

    ALL_CASES_PASSED = "AllCasesPassed"  # except for those in quarantine
    CASES_FAILED = "CasesFailed"
    CASES_CRASHED = "CasesCrashed"
    CASES_HUNG = "CasesHung"
    NOTHING_COLLECTED = "NothingCollected"  # a suite without cases
    NOTHING_PASSED = "NothingPassed"  # all cases were skipped or not run
    COLLECTION_FAILED = "CollectionFailed"  # an import error, for example
    COLLECTION_DIFFERS = "CollectionDiffers"  # ranks have collected different cases
    UNKNOWN_SUITE = "UnknownSuite"
    INVALID_SPEC = "InvalidSpec"
    QUEUE_TIMEOUT = "QueueTimeout"  # not admitted within queueSeconds: by its queue, or by the run before it
    GANG_TIMEOUT = "GangTimeout"  # admitted, but not all pods were started within queueSeconds
    TOO_FEW_GPUS = "TooFewGpus"  # the nodes can never hold the gang
    RENDEZVOUS_TIMEOUT = "RendezvousTimeout"  # agents did not find each other within joinSeconds
    GANG_LOST = "GangLost"  # the connection to an agent broke
    GANG_FAILED_TO_START = "GangFailedToStart"  # ranks could not be started or restarted
    NODES_DIFFER = "NodesDiffer"  # versions or GPUs differ between nodes
    GPU_BROKEN = "GpuBroken"  # CUDA cannot be initialised on a node, or a GPU is broken
    SHARED_NODE = "SharedNode"  # two pods of a spread gang on one node
    RUN_DEADLINE = "RunDeadline"
    TERMINATED = "Terminated"  # SIGTERM
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    CONTAINER_CONFIG = "ContainerConfig"  # the kubelet could not make the container from its configuration
    CONTAINER_START = "ContainerStart"  # the command could not be executed, or the image cannot run the runner
    REFERENCE_MISSING = "ReferenceMissing"  # a ConfigMap, ServiceAccount or PersistentVolumeClaim that the spec names
    PODS_REFUSED = "PodsRefused"  # quota, PodSecurity, admission
    NAME_TAKEN = "NameTaken"  # an object of that name exists and does not belong to the DistTest
    OUT_OF_MEMORY = "OutOfMemory"
    DISRUPTED = "Disrupted"  # preempted, evicted, drained
    SUSPENDED = "Suspended"  # during the run, by its queue or a user
    NODE_LOST = "NodeLost"
    NODE_UNHEALTHY = "NodeUnhealthy"  # a sign of broken hardware
    POD_KILLED = "PodKilled"  # killed from outside, without a known disruption
    POD_MISSING = "PodMissing"  # deleted without a trace
    NODE_REFUSED_POD = "NodeRefusedPod"  # UnexpectedAdmissionError, OutOf<resource>
    JOB_MISSING = "JobMissing"  # the Job was deleted
    REPORT_MISSING = "ReportMissing"
    REPORT_INVALID = "ReportInvalid"
    RUNNER_ERROR = "RunnerError"  # a bug, or operator and runner images of different versions
    CANCELLED = "Cancelled"


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
        (counts.total == 0, Verdict.ERRORED, Reason.NOTHING_COLLECTED),
        (red[Outcome.HUNG] > 0, Verdict.HUNG, Reason.CASES_HUNG),
        (red[Outcome.CRASHED] > 0, Verdict.TESTS_FAILED, Reason.CASES_CRASHED),
        (red.total > 0, Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        (counts[Outcome.PASSED] == 0, Verdict.ERRORED, Reason.NOTHING_PASSED),
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
