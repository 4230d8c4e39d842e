"""The table of metric families, with their names, types and labels. docs/reference/metrics.md is generated from it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partialmethod

PREFIX = "disttest_"
SERIES = ("namespace", "series")
POINT = (*SERIES, "collective", "dtype", "size_bytes", "nodes")


class FamilyType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Group(StrEnum):
    """A list of the page; the value is its heading."""

    RUNS = "Runs: counters and histograms"
    LAST = "Runs: last run and history"
    ACTIVE = "Runs: active runs"
    FABRIC = "Fabric: collectives of the last run that measured them"
    NODES = "Nodes"
    SCHEDULE = "Schedule: CronJobs with the label `disttest.dev/series`"
    HISTORY = "Completeness of results"
    OPERATOR = "Operator: every replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """`name` has no prefix and no `_total`."""

    group: Group
    name: str
    type: FamilyType
    labels: tuple[str, ...] = ()
    meaning: str

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def shown_name(self) -> str:
        """The name in queries."""
        return self.full_name + ("_total" if self.type is FamilyType.COUNTER else "")


class _FamilyBuilder:
    """Builds the families of one group, with their common labels. A name is followed by the other labels in braces."""

    def __init__(self, group: Group, common: tuple[str, ...]) -> None:
        self._group, self._common = group, common

    def _build(self, kind: FamilyType, name: str, meaning: str) -> Family:
        name, *own = re.findall(r"\w+", name)
        labels = (*self._common, *own)
        return Family(group=self._group, name=name, type=kind, labels=labels, meaning=meaning)

    counter = partialmethod(_build, FamilyType.COUNTER)
    gauge = partialmethod(_build, FamilyType.GAUGE)
    histogram = partialmethod(_build, FamilyType.HISTOGRAM)


_runs = _FamilyBuilder(Group.RUNS, SERIES)
RUNS = _runs.counter("runs{verdict,reason}", "number of finished runs")
RETRIES = _runs.counter("retries{reason}", "number of attempts that were retried, by the reason of their end")
CASES = _runs.counter("cases{suite,outcome}", "number of cases of finished runs")
HANGS = _runs.counter("hangs{suite}", "number of cases that hung, including those that passed in a rerun")
RUN_DURATION = _runs.histogram(
    "run_duration_seconds{verdict}",
    "time from the start of the complete gang to the verdict, without runs whose gang did not start",
)
STEP_DURATION = _runs.histogram(
    "step_duration_seconds{step}", "duration of each step of a run: queued, scheduled, pulled, joined, ran, collected"
)
GANG_WAIT = _runs.histogram(
    "gang_wait_seconds{queue}",
    "time from the creation of a run until all its pods have nodes, by `spec.queueName` (empty: none)",
)

_last = _FamilyBuilder(Group.LAST, SERIES)
LAST_VERDICT = _last.gauge("last_run_verdict{verdict}", "1 for the verdict of the last finished run, 0 for the others")
LAST_COMPLETION = _last.gauge("last_completion_timestamp_seconds", "time when the last run finished")
LAST_SUCCESS = _last.gauge("last_success_timestamp_seconds", "time when the last passed run finished")
LAST_STEPS = _last.gauge("last_run_step_seconds{step}", "duration of each step of the last finished run")
LAST_CASES = _last.gauge(
    "last_run_cases{suite,outcome}",
    "number of cases of the last run with results; the outcomes of a suite add up to all its cases",
)
LAST_FLAKY = _last.gauge("last_run_flaky_cases{suite}", "number of flaky cases of the last run with results")
SUITE_SUCCESS = _last.gauge("suite_last_success{suite}", "1 if the suite passed in the last run with results, else 0")
SUITE_DURATION = _last.gauge("suite_last_duration_seconds{suite}", "duration of the suite in the last run with results")
STREAK = _last.gauge(
    "run_streak",
    "number of consecutive passed runs; negative: runs that did not pass. InfraFailed and Cancelled do not count",
)
PASS_RATIO = _last.gauge(
    "pass_ratio", "fraction of passed runs among the last 30, without InfraFailed and Cancelled; 0 to 1"
)
FLIP_RATIO = _last.gauge(
    "flip_ratio", "fraction of changes between passed and not passed among the last 30 runs; 0 to 1"
)
FAILING = _last.gauge("failing_cases{suite}", "number of listed cases that were bad when they last ran")
NEWLY_FAILING = _last.gauge("newly_failing_cases{suite}", "number of failing cases that were good in the run before")
FLAKY = _last.gauge(
    "flaky_cases{suite}",
    "number of cases that passed only in a rerun, or started to fail more than once, within the last 30 runs",
)
FLIPS = _last.gauge("case_flips{suite}", "maximum number of changes of one case between good and bad within 30 runs")
FAILING_STREAK = _last.gauge(
    "failing_case_streak{suite,case}",
    "number of consecutive runs in which the case was bad; the only family that names cases",
)
INFO = _last.gauge(
    "info{backend,torch_version,nccl_version,gpu_product}",
    "1; versions and hardware of the last run with results are labels",
)
TRANSPORT_INFO = _last.gauge(
    "transport_info{transport,network}",
    "1; network of the last run with results: transport as in reports, network `IB`, `Socket` or another known one, "
    "or `other`",
)

_active = _FamilyBuilder(Group.ACTIVE, SERIES)
ACTIVE_RUNS = _active.gauge(
    "active_runs{phase}", "number of runs without a verdict: Queued, Starting, Running, Collecting"
)
ACTIVE_START = _active.gauge(
    "active_run_start_timestamp_seconds", "time when the oldest active run was created; absent if there is none"
)
ACTIVE_DEADLINE = _active.gauge(
    "active_run_deadline_timestamp_seconds",
    "earliest time at which an active run must leave its phase or have its verdict, according to its timeouts. "
    "Suspended runs and runs that wait for an older run have none",
)

_fabric = _FamilyBuilder(Group.FABRIC, POINT)
BUSBW = _fabric.gauge("collective_busbw_bytes_per_second", "bus bandwidth, median of the ranks")
BUSBW_REFERENCE = _fabric.gauge(
    "collective_busbw_threshold_bytes_per_second", "threshold of `spec.thresholds` that applies to the measurement"
)
COLLECTIVE_TIME = _fabric.gauge(
    "collective_time_seconds{stat}", "duration of one call: stat `median` of the ranks, or the `slowest` rank"
)
WRONG_ELEMENTS = _fabric.gauge("collective_wrong_elements", "number of wrong elements of the result, over all ranks")

_nodes = _FamilyBuilder(Group.NODES, ())
NODE_SUSPECT = _nodes.gauge(
    "node_suspect{node,reason,confirmed}",
    "1 for each suspect node of any series; absent after a later run passed on it",
)
NODE_FAILURES = _nodes.counter(
    "node_failures{node,reason}",
    "number of runs that confirmed the node as suspect: they failed there and passed on other nodes",
)
NODE_TESTED = _nodes.gauge(
    "node_last_tested_timestamp_seconds{namespace,series,node}", "time of the last run with results on the node"
)

_schedule = _FamilyBuilder(Group.SCHEDULE, SERIES)
SCHEDULE_DUE = _schedule.gauge(
    "schedule_due_timestamp_seconds",
    "last scheduled time whose run must have finished by now; absent while suspended and before the first. "
    "If `disttest_last_completion_timestamp_seconds` is lower or absent, a nightly run is missing",
)
SCHEDULE_NEXT = _schedule.gauge("schedule_next_timestamp_seconds", "next scheduled time; absent while suspended")
SCHEDULE_INTERVAL = _schedule.gauge("schedule_interval_seconds", "time from the last scheduled time to the next")
SCHEDULE_SUSPENDED = _schedule.gauge("schedule_suspended", "1 while the CronJob is suspended, else 0")
SCHEDULE_READABLE = _schedule.gauge(
    "schedule_readable", "0 if the schedule or time zone is not valid, and missed runs cannot be detected; else 1"
)

LEDGER_PENDING = _FamilyBuilder(Group.HISTORY, SERIES).gauge(
    "ledger_pending_runs", "number of counted runs whose status may not have been written yet, up to 16"
)
_history = _FamilyBuilder(Group.HISTORY, ())
DROPPED = _history.gauge("dropped_series{family}", "minimum number of time series of this family above its limit")
LEDGER_WRITES = _history.counter("ledger_writes{result}", "number of ledger writes: success, conflict, refused, error")
INGESTED = _history.counter(
    "results_ingested{transport,outcome}",
    "number of reads of reports, from the `log` of a pod or a `configmap`: found, missing, invalid or "
    "unreadable (read again)",
)

_own = _FamilyBuilder(Group.OPERATOR, ())
BUILD_INFO = _own.gauge("build_info{version}", "1")
LEADER = _own.gauge("leader", "1 if this replica is active, else 0")
QUEUE_DEPTH = _own.gauge("queue_depth", "number of keys that wait for a worker")
QUEUE_WAIT = _own.histogram("queue_wait_seconds", "time that keys waited for a worker")
RECONCILES = _own.counter(
    "reconciles{kind,result}", "number of reconciles of a run or series: success, conflict, error"
)
RECONCILE_DURATION = _own.histogram("reconcile_duration_seconds{kind}", "duration of reconciles")
API_REQUESTS = _own.counter(
    "api_requests{verb,resource,code}",
    "number of requests to the API server, including watches; code `error`: no response",
)
API_DURATION = _own.histogram(
    "api_request_duration_seconds{verb}", "duration of requests to the API server, without watches"
)
PROGRESS_WRITES = _own.counter(
    "progress_writes", "number of writes of `status.progress`: at most every 10 s for one run, and 5 per second for all"
)
FOLLOWED_LOGS = _own.gauge("followed_logs", "number of followed leader logs, at most 128; each needs a connection")
LAST_EVENT = _own.gauge("last_event_timestamp_seconds{resource}", "time of the last event of a watch")
WATCH_BEGUN = _own.gauge(
    "watch_start_timestamp_seconds{resource}",
    "time when the watch last restarted, which happens every four minutes; the oldest of its namespaces",
)
HEALED = _own.counter(
    "watch_missed_changes{resource}", "number of objects whose change or deletion a watch did not report"
)
SCRAPES = _own.counter("metrics_requests{code}", "number of requests for /metrics by status: 200, 401, 403, 429, 503")
CERTIFICATE_END = _own.gauge(
    "metrics_certificate_expiry_timestamp_seconds{source}",
    "time when the certificate of `/metrics` expires; it is from `files` (`--metrics-certificates`) or "
    "self-signed (`own`); absent over plain HTTP",
)
CERTIFICATE_REFUSALS = _own.counter(
    "metrics_certificate_load_errors",
    "number of failed loads of `--metrics-certificates`, tried every 10 s; the previous certificate stays in use",
)

FAMILIES = tuple(value for value in globals().values() if isinstance(value, Family))


def in_group(group: Group) -> Iterable[Family]:
    return (family for family in FAMILIES if family.group is group)
