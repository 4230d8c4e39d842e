"""What the operator counts of its own work."""

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

from disttest_operator.caches import WATCHED
from disttest_operator.metrics import families
from disttest_operator.metrics.families import Family
from disttest_operator.ports import Kind, LedgerWrite, Transport

OUTCOMES = {
    Transport.LOG: ("found", "missing", "invalid", "unreadable"),
    Transport.CONFIG_MAP: ("found", "missing"),
}
ANSWERS = (200, 401, 403, 429, 503)  # to scrapes
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)  # seconds


class Own:
    """One registry; nothing is shared between two operators of one process, as in tests."""

    def __init__(self, *, version: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # library without types; no second series for each counter
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._gauge(families.BUILD_INFO).labels(version).set(1)
        self.leader = self._gauge(families.LEADER)
        self.queue_depth = self._gauge(families.QUEUE_DEPTH)
        self.queue_wait = self._histogram(families.QUEUE_WAIT)
        self.requests = self._counter(families.API_REQUESTS)
        self.request_seconds = self._histogram(families.API_DURATION)
        self.reconciles = self._counter(families.RECONCILES)
        self.reconcile_seconds = self._histogram(families.RECONCILE_DURATION)
        self.last_event = self._gauge(families.LAST_EVENT)
        self.watch_begun = self._gauge(families.WATCH_BEGUN)
        self.healed = self._counter(families.HEALED)
        self.ledger_writes = self._counter(families.LEDGER_WRITES)
        self.ingested = self._counter(families.INGESTED)
        self.progress_writes = self._counter(families.PROGRESS_WRITES)
        self.followed_logs = self._gauge(families.FOLLOWED_LOGS)
        self.scrapes = self._counter(families.SCRAPES)
        self.certificate_end = self._gauge(families.CERTIFICATE_END)
        self.certificate_refusals = self._counter(families.CERTIFICATE_REFUSALS)
        self._be_born()

    def _be_born(self) -> None:
        """At 0: increase() cannot see a counter that is born at 1."""
        for resource in (Kind.RUN.resource, Kind.SERIES.resource):
            self.reconcile_seconds.labels(resource)
            for result in ("success", "conflict", "error"):
                self.reconciles.labels(resource, result)
        for code in ANSWERS:
            self.scrapes.labels(str(code))
        for kind in WATCHED:
            self.healed.labels(kind.resource)
        for write in LedgerWrite:
            self.ledger_writes.labels(write.value)
        for transport, outcomes in OUTCOMES.items():
            for outcome in outcomes:
                self.ingested.labels(transport.value, outcome)

    def _counter(self, family: Family) -> CounterMetric:
        return CounterMetric(family.full_name, family.meaning, family.labels, registry=self.registry)

    def _gauge(self, family: Family) -> GaugeMetric:
        return GaugeMetric(family.full_name, family.meaning, family.labels, registry=self.registry)

    def _histogram(self, family: Family) -> HistogramMetric:
        return HistogramMetric(family.full_name, family.meaning, family.labels, buckets=BUCKETS, registry=self.registry)
