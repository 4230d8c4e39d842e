"""All that is known about a run at one moment, and what follows from it without judging."""

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
    """How patient the operator is, in whole seconds, and what it allows."""

    allowed: tuple[Allowance, ...] = ()  # beyond what every DistTest may ask for
    fixed_nodes: bool = False  # no node will be added: too few GPUs are final
    image_patience_seconds: int = 30  # a registry may be away for a moment
    config_patience_seconds: int = 5  # a name or configuration that is wrong stays wrong
    stuck_seconds: int = 3  # a Job or pod that has not moved for so long: read its events
    leader_patience_seconds: int = 15  # another agent has ended: the leader should notice and report
    settle_seconds: int = 3  # the leader ended without a result: the other pods' ends may say why
    log_patience_seconds: int = 20  # the leader's log cannot be read
    grace_seconds: int = 60  # by which the runner's own deadlines come first
    linger_seconds: int = 10  # for the other agents to end after the verdict
    parting_seconds: int = 45  # for the pods of an attempt to go before the next one begins
    gang_patience_seconds: int = 600  # with a gang of which some pods have nodes and others find none

    @property
    def rival_patience_seconds(self) -> float:
        """The same, while an older run has such a gang too."""
        return self.gang_patience_seconds / 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An object of the run's namespace that the spec names, and where it does."""

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
    """What a rule made of an attempt. `nodes` and `pods` are those to blame: none unless the rule says so."""

    verdict: Verdict
    reason: Reason
    message: str
    retry: bool
    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFound:
    """A report that was accepted. `raw` is its JSON."""

    report: Report
    raw: bytes
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLost:
    """There is none that can be used. `is_invalid`: there is one, but it is not to be believed."""

    problem: str
    is_invalid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUnreadable:
    """The log could not be had now; it may be had later."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Where the report is; without a name it could not be stored, and `problem` says why."""

    config_map: str = ""
    sha256: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What rules of the operator's configuration found in an attempt that went wrong; None: nothing."""

    match: Match | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSeen:
    """What the leader said last in the log of the attempt with this nonce, and how far apart it may be written."""

    told: Progress
    nonce: str
    spacing_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What caches hold and what was asked for. None: not asked yet."""

    problems: tuple[str, ...] = ()  # of the spec
    job: JobView | None = None  # of this attempt
    leftovers: tuple[JobView, ...] = ()  # of earlier ones
    older_run: str = ""  # of the series, without a verdict, where the spec says to wait for it
    has_older_rival: bool = False  # an older run has half a gang too
    pods: tuple[PodView, ...] = ()
    entry: Mapping[str, Any] | None = None  # of this run in the ledger: it is counted and judged
    missing: tuple[Reference, ...] | None = None  # of those that the spec names
    quarantine: QuarantineRead | None = None
    nodes: tuple[NodeView, ...] | None = None
    events: tuple[EventView, ...] | None = None
    report: ReportFound | ReportLost | LogUnreadable | None = None
    progress: ProgressSeen | None = None
    has_service: bool = False
    has_listed_pods: bool = False
    is_job_gone: bool = False  # a live read said so, or we deleted it just now
    taken: str = ""  # kind and name of an object in our way
    refused: str = ""  # what the API server said when it refused the Job or its Service
    stored: Stored | None = None  # the report
    is_report_kept: bool = False  # by the series, if it is to be
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
        """Of this attempt, oldest first; those that are gone too."""
        mine = (pod for pod in self.seen.pods if pod.run_uid == self.test.uid and pod.attempt == self.test.attempt)
        return tuple(sorted(mine, key=lambda pod: (pod.created, pod.resource_version)))

    @property
    def pods(self) -> tuple[PodView, ...]:
        """By index; of several pods of one index the newest."""
        newest = {pod.index: pod for pod in self.all_pods if pod.index < self.test.spec.nodes}
        return tuple(newest[index] for index in sorted(newest))

    @property
    def has_strays(self) -> bool:
        """Whether there may be pods of the gang of which the watch does not tell."""
        job = self.seen.job
        if job is None or job.is_deleting or job.is_suspended:
            return False
        is_short = len(self.pods) < self.test.spec.nodes
        return any(pod.is_unwatched or pod.went_silently for pod in self.all_pods) or (
            is_short and self.has_passed(job.started or job.created, self.policy.stuck_seconds)
        )

    @property
    def lost_pods(self) -> tuple[PodView, ...]:
        """Those that can take part no more. One that was replaced before it had started is no loss."""
        current = {pod.uid for pod in self.pods}
        return tuple(pod for pod in self.all_pods if pod.is_lost and (pod.has_started or pod.uid in current))

    @property
    def ended_pods(self) -> list[PodView]:
        """Lost ones whose end is known, the first to end first: it is the cause, the others are victims."""
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
        """When we saw the first pod end otherwise than well, or being told to go."""
        return min((pod.ending_since for pod in self.lost_pods if pod.ending_since), default=None)

    @property
    def queue_deadline(self) -> datetime:
        return attempts.queued_since(self.test, self.now) + timedelta(seconds=self.test.spec.timeouts.queue_seconds)

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
        """The operator's own, should the runner say nothing."""
        timeouts = self.test.spec.timeouts
        seconds = timeouts.join_seconds + attempts.run_seconds_left(self.test) + self.policy.grace_seconds
        return self.started + timedelta(seconds=seconds) if self.started else None

    @property
    def leader_end(self) -> datetime | None:
        return self.leader.ending_since if self.leader and self.leader.has_ended else None

    @property
    def report(self) -> ReportFound | ReportLost | None:
        """None: it may yet come."""
        found = self.seen.report
        if isinstance(found, LogUnreadable):
            is_late = self.has_passed(self.leader_end, self.policy.log_patience_seconds)
            return ReportLost(problem=found.problem) if is_late else None
        return found

    @property
    def is_over(self) -> bool:
        """Whether the gang has ended, and what is to be known about its end is known."""
        if self.has_leader_ended:
            have_all_ended = all(pod.has_ended for pod in self.pods)
            is_settled = have_all_ended or self.has_passed(self.leader_end, self.policy.settle_seconds)
            return self.report is not None and is_settled
        return self.has_passed(self.first_loss, self.policy.leader_patience_seconds)

    def has_passed(self, since: datetime | None, seconds: float) -> bool:
        return since is not None and self.now >= since + timedelta(seconds=seconds)
