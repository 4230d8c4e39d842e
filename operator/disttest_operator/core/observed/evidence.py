"""The evidence: all observations of a run at one moment, and what follows from them before any rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.report import Report
from disttest_contract.transport.progress import Progress
from disttest_operator.core.api.allowances import Allowance
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.objects import EventView, JobView, NodeView, PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the operator allows, and for how long it waits in each situation, in whole seconds."""

    allowed: tuple[Allowance, ...] = ()  # in addition to what every DistTest may request
    fixed_nodes: bool = False  # no node will be added: too few GPUs are final
    image_pull_timeout_seconds: int = 30  # a registry may be unavailable for a moment
    config_patience_seconds: int = 5  # a name or configuration that is wrong stays wrong
    stuck_seconds: int = 3  # without a change of a Job or pod, after which its events are read
    leader_patience_seconds: int = 15  # after another agent ended, for the leader to notice and report
    settle_seconds: int = 3  # after the leader ended without a result: how the other pods end may explain it
    log_patience_seconds: int = 20  # while the leader's log cannot be read
    grace_seconds: int = 60  # added to the runner's deadlines, which come first
    linger_seconds: int = 10  # for the other agents to end after the verdict
    parting_seconds: int = 45  # for the pods of an attempt to disappear before the next one starts
    partial_gang_timeout_seconds: int = 600  # while some pods of a gang have nodes and the others find none

    @property
    def rival_patience_seconds(self) -> float:
        """Used instead of partial_gang_timeout_seconds while an older run has half a gang too."""
        return self.partial_gang_timeout_seconds / 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An object of the run's namespace that the spec names at `path`."""

    kind: str  # ConfigMap, ServiceAccount or PersistentVolumeClaim
    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRead:
    """The list of known failures, or why it cannot be used."""

    lists: Lists = field(default_factory=lambda: NOTHING)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The result of a hardware rule. `nodes` are those at fault: empty unless the rule blames."""

    verdict: Verdict
    reason: Reason
    message: str
    retry: bool
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFound:
    """An accepted report. `raw` is its JSON."""

    report: Report
    raw: bytes
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLost:
    """There is no usable report. `is_invalid`: there is one, but it contradicts itself or the run."""

    problem: str
    is_invalid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUnreadable:
    """The leader's log cannot be read now; a later try may succeed."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Where the report is stored; without a name it could not be stored, and `problem` explains why."""

    config_map: str = ""
    sha256: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The result of the search for signs of broken hardware; None: no rule matches."""

    match: Match | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSeen:
    """The leader's newest progress line in the attempt with this nonce, and the minimum time between two writes."""

    progress: Progress
    nonce: str
    spacing_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the caches contain, and what was read on request. None: not read yet."""

    problems: tuple[str, ...] = ()  # of the spec
    job: JobView | None = None  # of this attempt
    leftovers: tuple[JobView, ...] = ()  # of earlier ones
    older_run: str = ""  # of the series, without a verdict, if the spec requires to wait for it
    has_older_rival: bool = False  # an older run has half a gang too
    pods: tuple[PodView, ...] = ()
    entry: Mapping[str, Any] | None = None  # of this run in the ledger, with its final status
    missing: tuple[Reference, ...] | None = None  # references to objects that do not exist
    quarantine: QuarantineRead | None = None
    nodes: tuple[NodeView, ...] | None = None
    events: tuple[EventView, ...] | None = None
    report: ReportFound | ReportLost | LogUnreadable | None = None
    progress: ProgressSeen | None = None
    has_service: bool = False
    has_listed_pods: bool = False
    is_job_gone: bool = False  # by a read from the API server, or because the operator just deleted it
    taken: str = ""  # kind and name of another object with the name of the Job or Service
    refused: str = ""  # the API server's message when it refused the Job or its Service
    stored: Stored | None = None  # the report
    is_report_kept: bool = False  # the series owns it, or does not keep reports
    search: Search | None = None  # for signs of broken hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run at one moment."""

    test: DistTest
    seen: Observed
    policy: Policy = field(default_factory=Policy)
    now: datetime

    @property
    def all_pods(self) -> tuple[PodView, ...]:
        """Of this attempt, oldest first, including deleted ones."""
        mine = (pod for pod in self.seen.pods if pod.run_uid == self.test.uid and pod.attempt == self.test.attempt)
        return tuple(sorted(mine, key=lambda pod: (pod.created, pod.resource_version)))

    @property
    def pods(self) -> tuple[PodView, ...]:
        """The newest pod of each index, by index."""
        newest = {pod.index: pod for pod in self.all_pods if pod.index < self.test.spec.nodes}
        return tuple(newest[index] for index in sorted(newest))

    @property
    def has_strays(self) -> bool:
        """Whether the gang may have pods for which the watch has no events."""
        job = self.seen.job
        if job is None or job.is_deleting or job.is_suspended:
            return False
        is_short = len(self.pods) < self.test.spec.nodes
        return any(pod.is_unwatched or pod.went_silently for pod in self.all_pods) or (
            is_short and self.has_passed(job.started or job.created, self.policy.stuck_seconds)
        )

    @property
    def lost_pods(self) -> tuple[PodView, ...]:
        """Pods that can no longer take part, except those that were replaced before they had started."""
        current = {pod.uid for pod in self.pods}
        return tuple(pod for pod in self.all_pods if pod.is_lost and (pod.has_started or pod.uid in current))

    @property
    def ended_pods(self) -> list[PodView]:
        """Lost pods whose end is known, in order of time: the first one is the cause, the others are victims."""
        ended = [(pod.exit.at, pod) for pod in self.lost_pods if pod.exit and pod.exit.at]
        return [pod for _, pod in sorted(ended, key=lambda pair: pair[0])]

    @property
    def leader(self) -> PodView | None:
        pods = self.pods
        return pods[0] if pods and pods[0].index == 0 else None

    @property
    def has_leader_ended(self) -> bool:
        return self.leader is not None and self.leader.has_ended

    @property
    def has_whole_gang(self) -> bool:
        """Whether every container has been started."""
        pods = self.pods
        return len(pods) == self.test.spec.nodes and all(pod.has_started for pod in pods)

    @property
    def started(self) -> datetime | None:
        """When the last container of the gang was started."""
        return max(pod.started for pod in self.pods if pod.started) if self.has_whole_gang else None

    @property
    def first_loss(self) -> datetime | None:
        """When the operator first saw a pod that failed or was being deleted."""
        return min((pod.ending_since for pod in self.lost_pods if pod.ending_since), default=None)

    @property
    def queue_deadline(self) -> datetime:
        return attempts.queue_deadline(self.test, self.now)

    @property
    def half_since(self) -> datetime | None:
        """Since when some pods have nodes and the scheduler finds none for the others."""
        pods = self.pods
        if not pods or not any(pod.is_unschedulable for pod in pods):
            return None
        bound = (pod.conditions.get("PodScheduled") for pod in pods if pod.is_scheduled)
        return max((scheduled.since for scheduled in bound if scheduled and scheduled.since), default=None)

    @property
    def departing(self) -> tuple[PodView, ...]:
        """Pods of earlier attempts that have not ended."""
        mine = (pod for pod in self.seen.pods if pod.run_uid == self.test.uid and pod.attempt < self.test.attempt)
        return tuple(pod for pod in mine if not pod.has_ended)

    @property
    def run_deadline(self) -> datetime | None:
        started, grace_seconds = self.started, self.policy.grace_seconds
        return attempts.run_deadline(self.test, started, grace_seconds=grace_seconds) if started else None

    @property
    def leader_end(self) -> datetime | None:
        return self.leader.ending_since if self.leader and self.leader.has_ended else None

    @property
    def report(self) -> ReportFound | ReportLost | None:
        """None while it may still arrive."""
        found = self.seen.report
        if isinstance(found, LogUnreadable):
            is_late = self.has_passed(self.leader_end, self.policy.log_patience_seconds)
            return ReportLost(problem=found.problem) if is_late else None
        return found

    @property
    def is_over(self) -> bool:
        """Whether the gang has ended, and its report and the ends of its pods are known or overdue."""
        if self.has_leader_ended:
            have_all_ended = all(pod.has_ended for pod in self.pods)
            is_settled = have_all_ended or self.has_passed(self.leader_end, self.policy.settle_seconds)
            return self.report is not None and is_settled
        return self.has_passed(self.first_loss, self.policy.leader_patience_seconds)

    def has_passed(self, since: datetime | None, seconds: float) -> bool:
        return since is not None and self.now >= since + timedelta(seconds=seconds)
