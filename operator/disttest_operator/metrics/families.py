"""The table of metric families, with their names, types and labels. docs/metrics.md is generated from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "disttest_"
SERIES = ("namespace", "series")
POINT = (*SERIES, "collective", "dtype", "size_bytes", "nodes")


class FamilyType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Group(StrEnum):
    """A table of the document; the value is its heading."""

    RUNS = "Runs: counters and histograms"
    LAST = "Runs: the last one, and what the ledger remembers"
    ACTIVE = "Runs: those without a verdict"
    FABRIC = "Fabric: collectives of the last run that measured them"
    NODES = "Nodes"
    SCHEDULE = "Schedule: CronJobs with the label `disttest.dev/series`"
    HISTORY = "Whether the history is whole"
    OPERATOR = "The operator itself: every replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """`name` has no prefix and no `_total`. `bound` is the maximum number of series."""

    group: Group
    name: str
    type: FamilyType
    labels: tuple[str, ...] = ()
    bound: str
    meaning: str

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def shown_name(self) -> str:
        """The name in queries."""
        return self.full_name + ("_total" if self.type is FamilyType.COUNTER else "")


class _FamilyBuilder:
    """Builds the families of one group, with their common labels."""

    def __init__(self, group: Group, common: tuple[str, ...]) -> None:
        self._group, self._common = group, common

    def counter(self, name: str, *labels: str, bound: str, meaning: str) -> Family:
        return self._build(FamilyType.COUNTER, name, labels, bound, meaning)

    def gauge(self, name: str, *labels: str, bound: str, meaning: str) -> Family:
        return self._build(FamilyType.GAUGE, name, labels, bound, meaning)

    def histogram(self, name: str, *labels: str, bound: str, meaning: str) -> Family:
        return self._build(FamilyType.HISTOGRAM, name, labels, bound, meaning)

    def _build(self, kind: FamilyType, name: str, labels: tuple[str, ...], bound: str, meaning: str) -> Family:
        labels = (*self._common, *labels)
        return Family(group=self._group, name=name, type=kind, labels=labels, bound=bound, meaning=meaning)


_runs = _FamilyBuilder(Group.RUNS, SERIES)
RUNS = _runs.counter("runs", "verdict", "reason", bound="13 to 40", meaning="finished runs, exact")
RETRIES = _runs.counter(
    "retries", "reason", bound="20", meaning="attempts that were followed by another, by why the first one ended"
)
CASES = _runs.counter("cases", "suite", "outcome", bound="9 a suite", meaning="cases of finished runs")
HANGS = _runs.counter(
    "hangs", "suite", bound="1 a suite", meaning="cases that hung, those too that passed when they were tried again"
)
RUN_DURATION = _runs.histogram(
    "run_duration_seconds",
    "verdict",
    bound="17 a verdict",
    meaning="from the start of the whole gang to the verdict; runs whose gang never started are not in it. "
    "Exemplars name a run of each bucket",
)
STEP_DURATION = _runs.histogram(
    "step_duration_seconds",
    "step",
    bound="17 a step, 6 steps",
    meaning="where the time of a run went: queued, scheduled, pulled, joined, ran, collected",
)
GANG_WAIT = _runs.histogram(
    "gang_wait_seconds",
    "queue",
    bound="17 a queue, 8 queues",
    meaning="from the creation of a run until its last pod had a node, by `spec.queueName` (empty: none)",
)

_last = _FamilyBuilder(Group.LAST, SERIES)
LAST_VERDICT = _last.gauge(
    "last_run_verdict", "verdict", bound="7", meaning="1 for the verdict of the last finished run, 0 for the others"
)
LAST_COMPLETION = _last.gauge("last_completion_timestamp_seconds", bound="1", meaning="when the last run finished")
LAST_SUCCESS = _last.gauge("last_success_timestamp_seconds", bound="1", meaning="when the last passed run finished")
LAST_STEPS = _last.gauge(
    "last_run_step_seconds", "step", bound="6", meaning="how long each step of the last finished run took"
)
LAST_CASES = _last.gauge(
    "last_run_cases",
    "suite",
    "outcome",
    bound="9 a suite, 32 suites",
    meaning="cases of the last run that had results; the outcomes of a suite add up to all its cases",
)
LAST_FLAKY = _last.gauge(
    "last_run_flaky_cases", "suite", bound="32", meaning="those of them that passed only when they were tried again"
)
SUITE_SUCCESS = _last.gauge(
    "suite_last_success", "suite", bound="32", meaning="1 if the suite passed in that run, 0 if not"
)
SUITE_DURATION = _last.gauge(
    "suite_last_duration_seconds", "suite", bound="32", meaning="how long the suite took in that run"
)
STREAK = _last.gauge(
    "run_streak",
    bound="1",
    meaning="so many runs in a row passed; negative: so many did not. InfraFailed and Cancelled do not count",
)
PASS_RATIO = _last.gauge(
    "pass_ratio", bound="1", meaning="passed runs among the last 30, without InfraFailed and Cancelled; 0 to 1"
)
FLIP_RATIO = _last.gauge(
    "flip_ratio",
    bound="1",
    meaning="how often, among the last 30 runs, one passed and the next did not or the other way round; 0 to 1",
)
FAILING = _last.gauge(
    "failing_cases", "suite", bound="1 a suite", meaning="cases that were bad when they last ran, the listed ones"
)
NEWLY_FAILING = _last.gauge(
    "newly_failing_cases", "suite", bound="1 a suite", meaning="those of them that were good the time before"
)
FLAKY = _last.gauge(
    "flaky_cases",
    "suite",
    bound="1 a suite",
    meaning="cases that passed only when tried again, or broke more than once, within the last 30 runs",
)
FLIPS = _last.gauge(
    "case_flips", "suite", bound="1 a suite", meaning="most changes of one case between good and bad within 30 runs"
)
FAILING_STREAK = _last.gauge(
    "failing_case_streak",
    "suite",
    "case",
    bound="50",
    meaning="runs in a row in which the case was bad; the only family that names cases",
)
INFO = _last.gauge(
    "info",
    "backend",
    "torch_version",
    "nccl_version",
    "gpu_product",
    bound="1",
    meaning="1; with what the last run that had results was made",
)

_active = _FamilyBuilder(Group.ACTIVE, SERIES)
ACTIVE_RUNS = _active.gauge(
    "active_runs", "phase", bound="4", meaning="runs without a verdict: Queued, Starting, Running, Collecting"
)
ACTIVE_START = _active.gauge(
    "active_run_start_timestamp_seconds",
    bound="1",
    meaning="when the oldest of them was created; absent while there is none",
)
ACTIVE_DEADLINE = _active.gauge(
    "active_run_deadline_timestamp_seconds",
    bound="1",
    meaning="by when one of them must have moved on or have its verdict, by its own timeouts; of several the earliest. "
    "Those that are suspended or wait for an older run have none",
)

_fabric = _FamilyBuilder(Group.FABRIC, POINT)
BUSBW = _fabric.gauge("collective_busbw_bytes_per_second", bound="64", meaning="bus bandwidth, median of the ranks")
BUSBW_REFERENCE = _fabric.gauge(
    "collective_reference_busbw_bytes_per_second",
    bound="64",
    meaning="the threshold of `spec.thresholds` that the run was judged by",
)
COLLECTIVE_TIME = _fabric.gauge(
    "collective_time_seconds",
    "stat",
    bound="128",
    meaning="one call: stat `median` of the ranks, or the `slowest` rank",
)
WRONG_ELEMENTS = _fabric.gauge(
    "collective_wrong_elements", bound="64", meaning="elements of the result that were wrong, over all ranks"
)

_nodes = _FamilyBuilder(Group.NODES, ())
NODE_SUSPECT = _nodes.gauge(
    "node_suspect",
    "node",
    "reason",
    "confirmed",
    bound="1 a blamed node, 200",
    meaning="1 for each node that runs of any series blame; gone when a later run passed on it",
)
NODE_FAILURES = _nodes.counter(
    "node_failures",
    "node",
    "reason",
    bound="100",
    meaning="runs that were sure: a second failure there, and a pass elsewhere",
)
NODE_TESTED = _nodes.gauge(
    "node_last_tested_timestamp_seconds",
    "namespace",
    "series",
    "node",
    bound="1 a node and series, 512 a series",
    meaning="when a run with results was last made there",
)

_schedule = _FamilyBuilder(Group.SCHEDULE, SERIES)
SCHEDULE_DUE = _schedule.gauge(
    "schedule_due_timestamp_seconds",
    bound="1",
    meaning="the last scheduled time of which the run should be finished by now; absent while suspended and before "
    "the first. A `disttest_last_completion_timestamp_seconds` below it, or none, is a missed night",
)
SCHEDULE_NEXT = _schedule.gauge(
    "schedule_next_timestamp_seconds", bound="1", meaning="the next scheduled time; absent while suspended"
)
SCHEDULE_INTERVAL = _schedule.gauge(
    "schedule_interval_seconds", bound="1", meaning="from the last scheduled time to the next"
)
SCHEDULE_SUSPENDED = _schedule.gauge(
    "schedule_suspended", bound="1", meaning="1 while the CronJob is suspended, else 0"
)
SCHEDULE_READABLE = _schedule.gauge(
    "schedule_readable", bound="1", meaning="0 if schedule or time zone is not understood: then nothing is expected"
)

LEDGER_PENDING = _FamilyBuilder(Group.HISTORY, SERIES).gauge(
    "ledger_pending_runs", bound="1", meaning="runs that are counted and whose own status may not say so yet, up to 16"
)
_history = _FamilyBuilder(Group.HISTORY, ())
DROPPED = _history.gauge(
    "dropped_series",
    "family",
    bound="1 a family that is cut",
    meaning="series of this family that are missing because of its bound, at least",
)
LEDGER_WRITES = _history.counter(
    "ledger_writes", "result", bound="4", meaning="writes of ledgers: success, conflict, refused, error"
)
INGESTED = _history.counter(
    "results_ingested",
    "transport",
    "outcome",
    bound="6",
    meaning="reports that were asked for: from the `log` of a pod or a `configmap`; found, missing, invalid or "
    "unreadable (asked for again)",
)

_own = _FamilyBuilder(Group.OPERATOR, ())
BUILD_INFO = _own.gauge("build_info", "version", bound="1", meaning="1")
LEADER = _own.gauge("leader", bound="1", meaning="1 where this replica acts")
QUEUE_DEPTH = _own.gauge("queue_depth", bound="1", meaning="keys that wait for a worker")
QUEUE_WAIT = _own.histogram("queue_wait_seconds", bound="14", meaning="how long keys waited for a worker")
RECONCILES = _own.counter(
    "reconciles", "kind", "result", bound="6", meaning="looks at a run or a series: success, conflict, error"
)
RECONCILE_DURATION = _own.histogram("reconcile_duration_seconds", "kind", bound="28", meaning="how long they took")
API_REQUESTS = _own.counter(
    "api_requests",
    "verb",
    "resource",
    "code",
    bound="100",
    meaning="requests to the API server, watches included; code `error`: no answer",
)
API_DURATION = _own.histogram(
    "api_request_duration_seconds", "verb", bound="14 a verb", meaning="how long they took, watches excluded"
)
PROGRESS_WRITES = _own.counter(
    "progress_writes",
    bound="1",
    meaning="writes of `status.progress`: every 10 s at most for one run, 5 a second for all",
)
FOLLOWED_LOGS = _own.gauge(
    "followed_logs", bound="1", meaning="leaders' logs that are followed for it, 128 at most; each is a connection"
)
LAST_EVENT = _own.gauge(
    "last_event_timestamp_seconds", "resource", bound="5", meaning="when a watch last told something"
)
WATCH_BEGUN = _own.gauge(
    "watch_begun_timestamp_seconds",
    "resource",
    bound="5",
    meaning="when the watch was last begun anew, which happens every four minutes; the oldest of its namespaces",
)
HEALED = _own.counter(
    "resync_healed", "resource", bound="5", meaning="objects whose change or deletion a watch had not told"
)
SCRAPES = _own.counter(
    "metrics_requests", "code", bound="6", meaning="requests for /metrics by answer: 200, 401, 403, 429, 503"
)
CERTIFICATE_END = _own.gauge(
    "metrics_certificate_expiry_timestamp_seconds",
    "source",
    bound="1",
    meaning="until when the certificate that scrapers are shown is valid; from `files` (`--metrics-certificates`) or "
    "our `own`; absent over plain HTTP",
)
CERTIFICATE_REFUSALS = _own.counter(
    "metrics_certificate_refusals",
    bound="1",
    meaning="looks at `--metrics-certificates`, one every 10 s, that found what cannot be used: what was shown stays",
)

FAMILIES = tuple(value for value in globals().values() if isinstance(value, Family))


def in_group(group: Group) -> Iterable[Family]:
    return (family for family in FAMILIES if family.group is group)
