"""What /metrics says; the only home of the Prometheus client.

Runs are told from the ledgers and caches at each scrape, so that numbers survive the operator; what the operator does
itself is counted here.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client import Counter as CounterMetric
from prometheus_client import Gauge as GaugeMetric
from prometheus_client import Histogram as HistogramMetric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_operator.caches import Caches, Series
from disttest_operator.core import bodies, naming
from disttest_operator.core.model import Phase
from disttest_operator.metrics.families import SCRAPES
from disttest_operator.ports import Kind
from disttest_operator.requests import Request

SERIES = ("namespace", "series")
RECONCILE_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)  # seconds
# Every run ends with one of these sooner or later: born at 0, so that increase() sees the first.
COMMON = (
    (Verdict.PASSED, Reason.ALL_CASES_PASSED),
    (Verdict.TESTS_FAILED, Reason.CASES_FAILED),
    (Verdict.TESTS_FAILED, Reason.CASES_CRASHED),
    (Verdict.HUNG, Reason.CASES_HUNG),
    (Verdict.TIMED_OUT, Reason.RUN_DEADLINE),
    (Verdict.INFRA_FAILED, Reason.QUEUE_TIMEOUT),
    (Verdict.INFRA_FAILED, Reason.GANG_TIMEOUT),
    (Verdict.INFRA_FAILED, Reason.DISRUPTED),
    (Verdict.INFRA_FAILED, Reason.NODE_LOST),
    (Verdict.INFRA_FAILED, Reason.GANG_LOST),
    (Verdict.INFRA_FAILED, Reason.REPORT_MISSING),
    (Verdict.ERRORED, Reason.IMAGE_UNAVAILABLE),
    (Verdict.ERRORED, Reason.COLLECTION_FAILED),
)
RUNNING_PHASES = tuple(phase for phase in Phase if phase is not Phase.FINISHED)


class RunCollector(Collector):
    """Only where it is told to: one operator speaks for the runs, and none before its caches are filled."""

    def __init__(self, caches: Caches, *, speaks: Callable[[], bool]) -> None:
        self._caches = caches
        self._speaks = speaks

    def describe(self) -> list[Metric]:
        """Nothing: the registry must not ask before there is something to say."""
        return []

    def collect(self) -> Iterator[Metric]:  # type: ignore[explicit-override]  # typing.override came with 3.12
        if not self._speaks():
            return
        ledgers = sorted(self._caches.series(), key=lambda series: (series.namespace, series.name))
        yield _runs(ledgers)
        yield _cases(ledgers)
        yield _durations(ledgers)
        yield _last_verdicts(ledgers)
        yield _times(
            "disttest_last_completion_timestamp_seconds", "When the last run finished.", ledgers, "lastCompletionTime"
        )
        yield _times(
            "disttest_last_success_timestamp_seconds", "When the last passed run finished.", ledgers, "lastSuccessTime"
        )
        yield self._active(ledgers)

    def _active(self, ledgers: list[Series]) -> Metric:
        family = GaugeMetricFamily("disttest_active_runs", "Runs without a verdict.", labels=[*SERIES, "phase"])
        counted: Counter[tuple[str, str, str]] = Counter()
        for run in self._caches.runs():
            if not run.test.is_finished:
                phase = run.test.status.get("phase") or Phase.QUEUED.value
                counted[run.test.namespace, naming.series(run.test), phase] += 1
        pairs = {(series.namespace, series.name) for series in ledgers} | {key[:2] for key in counted}
        for namespace, series in sorted(pairs):
            for phase in RUNNING_PHASES:
                family.add_metric([namespace, series, phase.value], counted[namespace, series, phase.value])
        return family


class Metrics:
    """The operator's own counts, and the registry of all."""

    def __init__(self, caches: Caches, *, version: str, speaks: Callable[[], bool]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # library without types; no second series for each counter
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.registry.register(RunCollector(caches, speaks=speaks))
        build = GaugeMetric("disttest_build_info", "1; the label is the version.", ["version"], registry=self.registry)
        build.labels(version).set(1)
        self.leader = GaugeMetric("disttest_leader", "1 where this operator acts.", registry=self.registry)
        self.queue_depth = GaugeMetric("disttest_queue_depth", "Keys that wait.", registry=self.registry)
        self._requests = CounterMetric(
            "disttest_api_requests", "Requests to the API server.", ["verb", "resource", "code"], registry=self.registry
        )
        self._reconciles = CounterMetric(
            "disttest_reconciles", "Looks at a run or series.", ["kind", "result"], registry=self.registry
        )
        self._reconcile_seconds = HistogramMetric(
            "disttest_reconcile_duration_seconds",
            "How long a look took.",
            ["kind"],
            buckets=RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self._last_event = GaugeMetric(
            "disttest_last_event_timestamp_seconds",
            "When a watch last told something.",
            ["resource"],
            registry=self.registry,
        )
        self._pruned = CounterMetric(
            "disttest_resync_healed", "What watches had not told.", ["resource"], registry=self.registry
        )
        self._scrapes = CounterMetric(SCRAPES.full_name, SCRAPES.meaning, SCRAPES.labels, registry=self.registry)
        for kind in (Kind.RUN, Kind.SERIES):
            self._reconcile_seconds.labels(kind.resource)
            for result in ("success", "error"):
                self._reconciles.labels(kind.resource, result)

    def count_request(self, request: Request, code: str) -> None:
        self._requests.labels(request.verb, request.resource, code).inc()

    def count_reconcile(self, kind: Kind, *, result: str, seconds: float) -> None:
        self._reconciles.labels(kind.resource, result).inc()
        self._reconcile_seconds.labels(kind.resource).observe(seconds)

    def count_healed(self, kind: Kind, number: int) -> None:
        self._pruned.labels(kind.resource).inc(number)

    def count_scrape(self, code: int) -> None:
        """An answer to a request for /metrics, by its HTTP status."""
        self._scrapes.labels(str(code)).inc()

    def note_event(self, kind: Kind) -> None:
        self._last_event.labels(kind.resource).set_to_current_time()

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type, in the format that the scraper understands."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


def _runs(ledgers: list[Series]) -> Metric:
    family = CounterMetricFamily("disttest_runs", "Finished runs.", labels=[*SERIES, "verdict", "reason"])
    for series in ledgers:
        counts: dict[tuple[str, str], int] = {(verdict.value, reason.value): 0 for verdict, reason in COMMON}
        for row in _totals(series).get("runs") or ():
            counts[row["verdict"], row["reason"]] = row["count"]
        for (verdict, reason), count in sorted(counts.items()):
            family.add_metric([series.namespace, series.name, verdict, reason], count)
    return family


def _cases(ledgers: list[Series]) -> Metric:
    outcomes = {outcome.value for outcome in Outcome}
    family = CounterMetricFamily("disttest_cases", "Cases of finished runs.", labels=[*SERIES, "suite", "outcome"])
    for series in ledgers:
        for row in _totals(series).get("cases") or ():
            if row["outcome"] in outcomes:
                family.add_metric([series.namespace, series.name, row["suite"], row["outcome"]], row["count"])
    return family


def _durations(ledgers: list[Series]) -> Metric:
    family = HistogramMetricFamily(
        "disttest_run_duration_seconds", "Seconds from the gang's start to the verdict.", labels=SERIES
    )
    for series in ledgers:
        duration = _totals(series).get("duration") or {}
        rows = [(floatToGoString(row["le"]), row["count"]) for row in duration.get("buckets") or ()]  # type: ignore[no-untyped-call]  # library without types
        buckets = [*rows, ("+Inf", duration.get("count", 0))]
        family.add_metric([series.namespace, series.name], buckets=buckets, sum_value=duration.get("sum", 0))
    return family


def _last_verdicts(ledgers: list[Series]) -> Metric:
    name, words = "disttest_last_run_verdict", "1 for the verdict of the last run, 0 for all others."
    family = GaugeMetricFamily(name, words, labels=[*SERIES, "verdict"])
    for series in ledgers:
        if last := series.status.get("lastVerdict"):
            for verdict in Verdict:
                family.add_metric([series.namespace, series.name, verdict.value], verdict == last)
    return family


def _times(name: str, words: str, ledgers: list[Series], field: str) -> Metric:
    family = GaugeMetricFamily(name, words, labels=SERIES)
    for series in ledgers:
        if moment := bodies.time(series.status.get(field)):
            family.add_metric([series.namespace, series.name], moment.timestamp())
    return family


def _totals(series: Series) -> Mapping[str, Any]:
    return series.status.get("totals") or {}
