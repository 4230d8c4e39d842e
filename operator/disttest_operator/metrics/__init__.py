"""What /metrics says; the only home of the Prometheus client.

Runs are told from the ledgers and caches at each scrape, so that numbers survive the operator; what the operator does
itself is counted here.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

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
from prometheus_client.exposition import choose_encoder

from disttest_operator.cache.cache import WATCHED, Cache
from disttest_operator.kubernetes.ports import Kind, LedgerWrite, Transport
from disttest_operator.kubernetes.requests import ApiRequest
from disttest_operator.metrics import families
from disttest_operator.metrics.exposition import END, Encode, Exposition
from disttest_operator.metrics.families import Family
from disttest_operator.metrics.run_collectors import Runs

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


class Metrics:
    """The operator's own counts, and what is told of runs where `speaks` says that this operator is to."""

    def __init__(
        self,
        caches: Cache,
        *,
        version: str,
        speaks: Callable[[], bool],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._own = Own(version=version)
        self._runs = Runs(caches, clock)
        self._speaks = speaks
        self._exposition = Exposition()

    def count_request(self, request: ApiRequest, code: str, seconds: float) -> None:
        self._own.requests.labels(request.verb, request.resource, code).inc()
        if request.verb != "watch":
            self._own.request_seconds.labels(request.verb).observe(seconds)

    def count_reconcile(self, kind: Kind, *, result: str, seconds: float) -> None:
        self._own.reconciles.labels(kind.resource, result).inc()
        self._own.reconcile_seconds.labels(kind.resource).observe(seconds)

    def count_healed(self, kind: Kind, number: int) -> None:
        self._own.healed.labels(kind.resource).inc(number)

    def count_scrape(self, code: int) -> None:
        """An answer to a request for /metrics, by its HTTP status."""
        self._own.scrapes.labels(str(code)).inc()

    def note_certificate(self, source: str, ends_at: datetime) -> None:
        """The one that scrapers are shown from now on."""
        self._own.certificate_end.clear()
        self._own.certificate_end.labels(source).set(ends_at.timestamp())

    def count_refused_certificate(self) -> None:
        self._own.certificate_refusals.inc()

    def count_ledger_write(self, result: LedgerWrite) -> None:
        self._own.ledger_writes.labels(result.value).inc()

    def count_report(self, transport: Transport, outcome: str) -> None:
        self._own.ingested.labels(transport.value, outcome).inc()

    def count_progress(self) -> None:
        self._own.progress_writes.inc()

    def note_followed(self, logs: int) -> None:
        self._own.followed_logs.set(logs)

    def note_event(self, kind: Kind) -> None:
        self._own.last_event.labels(kind.resource).set_to_current_time()

    def note_wait(self, seconds: float) -> None:
        """How long a key waited for a worker."""
        self._own.queue_wait.observe(seconds)

    def note_state(self, *, is_active: bool, queue_depth: int, watches_begun: Mapping[str, float]) -> None:
        """Before a scrape. `watches_begun`: seconds since the epoch, by resource."""
        self._own.leader.set(is_active)
        self._own.queue_depth.set(queue_depth)
        for resource, at in watches_begun.items():
            self._own.watch_begun.labels(resource).set(at)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type, in the format that the scraper understands."""
        encode, content_type = _encoder(accept)
        own = encode(self._own.registry).decode()
        if not self._speaks():
            return own.encode(), content_type
        told = self._exposition.render(encode, content_type, list(self._runs.parts()))
        end = END if own.endswith(END) else ""
        return f"{own.removesuffix(END)}{told}{end}".encode(), content_type


def _encoder(accept: str) -> tuple[Encode, str]:
    """Plain text for who asks for a version that is none: the library raises then."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
