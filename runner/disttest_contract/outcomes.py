"""Outcomes of cases, verdicts of suites and runs, and the reasons given for them: three closed sets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Self


class Outcome(StrEnum):
    """How one case ended, over all ranks."""

    PASSED = "passed"
    FAILED = "failed"  # an assertion or exception in the case itself
    ERRORED = "errored"  # set-up, tear-down or collection raised
    CRASHED = "crashed"  # a rank died in mid-case
    HUNG = "hung"  # the case's deadline passed
    SKIPPED = "skipped"  # a rank skipped it, and none did worse
    XFAILED = "xfailed"  # failed as the suite expects
    XPASSED = "xpassed"  # passed although the suite expects a failure; not strict
    NOT_RUN = "notRun"  # no result: it never started (world too large or zero, say), or the run ended before it did


# A case is as good as its worst rank. Skipped is worse than passed: a case that some ranks skipped has not passed.
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
    """Merge what `ranks` ranks said of a case; a rank that said nothing has crashed, a world of none ran nothing."""
    said = list(outcomes)
    if ranks <= 0:
        return Outcome.NOT_RUN
    if len(said) < ranks:
        return Outcome.CRASHED
    seen = set(said)
    return next(outcome for outcome in WORST_FIRST if outcome in seen)


class Verdict(StrEnum):
    """What a suite or a run comes to. Once a run has one it never changes."""

    PASSED = "Passed"
    TESTS_FAILED = "TestsFailed"
    HUNG = "Hung"
    TIMED_OUT = "TimedOut"
    INFRA_FAILED = "InfraFailed"
    ERRORED = "Errored"
    CANCELLED = "Cancelled"


# Which verdict speaks for a run whose parts have several. Cancelled first: somebody wanted it so.
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
    """Why a verdict is what it is. At most 40: it is a metric label and users write alerts on it."""

    ALL_CASES_PASSED = "AllCasesPassed"  # but for those in quarantine
    CASES_FAILED = "CasesFailed"
    CASES_CRASHED = "CasesCrashed"
    CASES_HUNG = "CasesHung"
    NOTHING_COLLECTED = "NothingCollected"  # a suite without cases
    NOTHING_PASSED = "NothingPassed"  # cases, but all of them skipped or not run
    COLLECTION_FAILED = "CollectionFailed"  # an import error, say
    COLLECTION_DIFFERS = "CollectionDiffers"  # ranks do not see the same cases
    UNKNOWN_SUITE = "UnknownSuite"
    INVALID_SPEC = "InvalidSpec"
    QUEUE_TIMEOUT = "QueueTimeout"  # not admitted within queueSeconds: by its queue, or by the run before it
    GANG_TIMEOUT = "GangTimeout"  # admitted, but not all pods were started within queueSeconds
    TOO_FEW_GPUS = "TooFewGpus"  # no node, or not enough nodes, could ever hold the gang
    RENDEZVOUS_TIMEOUT = "RendezvousTimeout"  # agents did not find each other within joinSeconds
    GANG_LOST = "GangLost"  # an agent went away
    GANG_FAILED_TO_START = "GangFailedToStart"  # ranks could not be started or restarted
    NODES_DIFFER = "NodesDiffer"  # versions or GPUs of one node are not those of the others
    GPU_BROKEN = "GpuBroken"  # CUDA cannot be initialised on a node, or a GPU is proven to be broken
    SHARED_NODE = "SharedNode"  # two pods of a spread gang on one node
    RUN_DEADLINE = "RunDeadline"
    TERMINATED = "Terminated"  # SIGTERM
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    CONTAINER_CONFIG = "ContainerConfig"  # the kubelet could not make the container from its configuration
    CONTAINER_START = "ContainerStart"  # the command could not be executed, or the image cannot run the runner
    REFERENCE_MISSING = "ReferenceMissing"  # a ConfigMap, ServiceAccount or PersistentVolumeClaim that the spec names
    PODS_REFUSED = "PodsRefused"  # quota, PodSecurity, admission
    NAME_TAKEN = "NameTaken"  # an object of the name exists and is not ours
    OUT_OF_MEMORY = "OutOfMemory"
    DISRUPTED = "Disrupted"  # preempted, evicted, drained
    SUSPENDED = "Suspended"  # in mid-run, by its queue or a person
    NODE_LOST = "NodeLost"
    NODE_UNHEALTHY = "NodeUnhealthy"  # a sign or condition of broken hardware
    POD_KILLED = "PodKilled"  # ended from outside, without a disruption being named
    POD_MISSING = "PodMissing"  # vanished without a word
    NODE_REFUSED_POD = "NodeRefusedPod"  # UnexpectedAdmissionError, OutOf<resource>
    JOB_MISSING = "JobMissing"  # somebody deleted the Job
    REPORT_MISSING = "ReportMissing"
    REPORT_INVALID = "ReportInvalid"
    RUNNER_ERROR = "RunnerError"  # our own fault, or operator and runner image that do not fit together
    CANCELLED = "Cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many cases ended how; `total` is the sum of the outcomes.

    `flaky` is a part of passed, `quarantined` of what ended badly.
    """

    by_outcome: Mapping[Outcome, int] = field(default_factory=dict)
    flaky: int = 0
    quarantined: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], flaky: int = 0, quarantined: int = 0) -> Self:
        """Count outcomes."""
        counted: dict[Outcome, int] = {}
        for outcome in outcomes:
            counted[outcome] = counted.get(outcome, 0) + 1
        return cls(by_outcome=counted, flaky=flaky, quarantined=quarantined)

    @classmethod
    def sum(cls, parts: Iterable["Counts"]) -> Self:
        """Add up the counts of suites."""
        total: dict[Outcome, int] = {}
        flaky = quarantined = 0
        for part in parts:
            flaky, quarantined = flaky + part.flaky, quarantined + part.quarantined
            for outcome, number in part.by_outcome.items():
                total[outcome] = total.get(outcome, 0) + number
        return cls(by_outcome={key: n for key, n in total.items() if n}, flaky=flaky, quarantined=quarantined)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """Read what `to_json` wrote; unknown keys are ignored, a missing one is 0, and so is less than that."""
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
        """All keys, zeros included: an absent number would be read as unknown."""
        outcomes = {outcome.value: self[outcome] for outcome in Outcome}
        return {"total": self.total, **outcomes, "flaky": self.flaky, "quarantined": self.quarantined}


def judge(counts: Counts, excused: Mapping[Outcome, int] | None = None) -> tuple[Verdict, Reason]:
    """What cases that did run come to. First match wins; whatever is not proven green is not green.

    `excused` are those that ended badly and are in quarantine: they make nothing red, and nothing green.
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
    TESTS_FAILED = 10  # a result was obtained, and it is red
    INFRASTRUCTURE = 20  # worth another attempt
    CONFIGURATION = 30  # another attempt would end the same


EXIT_CODES = {
    Verdict.PASSED: ExitCode.PASSED,
    Verdict.TESTS_FAILED: ExitCode.TESTS_FAILED,
    Verdict.HUNG: ExitCode.TESTS_FAILED,
    Verdict.TIMED_OUT: ExitCode.TESTS_FAILED,
    Verdict.INFRA_FAILED: ExitCode.INFRASTRUCTURE,
    Verdict.CANCELLED: ExitCode.INFRASTRUCTURE,
    Verdict.ERRORED: ExitCode.CONFIGURATION,
}
