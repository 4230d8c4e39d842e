"""The metrics of the operator. No other package uses the Prometheus client.

Metrics of runs are made from ledgers and the cache at each scrape, so that they survive a restart of the operator.
Metrics of the operator itself are counted here.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from disttest_operator.cache.cache import Cache
from disttest_operator.core.api.resources import Kind
from disttest_operator.kubernetes.api_session import ApiRequest
from disttest_operator.kubernetes.ports import WATCHED, LedgerWrite, Transport
from disttest_operator.metrics import families
from disttest_operator.metrics.exposition import END, Encode, Exposition
from disttest_operator.metrics.families import INGESTED, LEDGER_WRITES, Family, FamilyType, Group
from disttest_operator.metrics.run_collectors import RunCollector

OUTCOMES = {
    Transport.LOG: ("found", "missing", "invalid", "unreadable"),
    Transport.CONFIG_MAP: ("found", "missing"),
}
ANSWERS = (200, 401, 403, 429, 503)  # to scrapes
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)  # seconds
OPERATOR_FAMILIES = (*families.in_group(Group.OPERATOR), LEDGER_WRITES, INGESTED)


class Metrics:
    """All metrics. Those of runs are exposed only while `speaks` returns true, as in the active operator."""

    def __init__(
        self,
        caches: Cache,
        *,
        version: str,
        speaks: Callable[[], bool],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # library without types; no second series for each counter
        self._registry = CollectorRegistry()  # not the library's global one, which tests would share
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._counters: dict[Family, Counter] = {}
        self._gauges: dict[Family, Gauge] = {}
        self._histograms: dict[Family, Histogram] = {}
        for family in OPERATOR_FAMILIES:
            self._register(family)
        self._gauges[families.BUILD_INFO].labels(version).set(1)
        self._initialize()
        self._runs = RunCollector(caches, clock)
        self._speaks = speaks
        self._exposition = Exposition()

    def _register(self, family: Family) -> None:
        arguments = (family.full_name, family.meaning, family.labels)
        match family.type:
            case FamilyType.COUNTER:
                self._counters[family] = Counter(*arguments, registry=self._registry)
            case FamilyType.GAUGE:
                self._gauges[family] = Gauge(*arguments, registry=self._registry)
            case FamilyType.HISTOGRAM:
                self._histograms[family] = Histogram(*arguments, buckets=BUCKETS, registry=self._registry)

    def _initialize(self) -> None:
        """Create counters at 0: increase() does not count a first sample of 1."""
        for resource in (Kind.RUN.resource, Kind.SERIES.resource):
            self._histograms[families.RECONCILE_DURATION].labels(resource)
            for result in ("success", "conflict", "error"):
                self._counters[families.RECONCILES].labels(resource, result)
        for code in ANSWERS:
            self._counters[families.SCRAPES].labels(str(code))
        for kind in WATCHED:
            self._counters[families.HEALED].labels(kind.resource)
        for write in LedgerWrite:
            self._counters[families.LEDGER_WRITES].labels(write.value)
        for transport, outcomes in OUTCOMES.items():
            for outcome in outcomes:
                self._counters[families.INGESTED].labels(transport.value, outcome)

    def count_request(self, request: ApiRequest, code: str, seconds: float) -> None:
        self._counters[families.API_REQUESTS].labels(request.verb, request.resource, code).inc()
        if request.verb != "watch":
            self._histograms[families.API_DURATION].labels(request.verb).observe(seconds)

    def count_reconcile(self, kind: Kind, *, result: str, seconds: float) -> None:
        self._counters[families.RECONCILES].labels(kind.resource, result).inc()
        self._histograms[families.RECONCILE_DURATION].labels(kind.resource).observe(seconds)

    def count_healed(self, kind: Kind, number: int) -> None:
        self._counters[families.HEALED].labels(kind.resource).inc(number)

    def count_scrape(self, code: int) -> None:
        """Count an answer to a request for /metrics by its HTTP status."""
        self._counters[families.SCRAPES].labels(str(code)).inc()

    def note_certificate(self, source: str, ends_at: datetime) -> None:
        """The certificate that the server presents from now on."""
        self._gauges[families.CERTIFICATE_END].clear()
        self._gauges[families.CERTIFICATE_END].labels(source).set(ends_at.timestamp())

    def count_refused_certificate(self) -> None:
        self._counters[families.CERTIFICATE_REFUSALS].inc()

    def count_ledger_write(self, result: LedgerWrite) -> None:
        self._counters[families.LEDGER_WRITES].labels(result.value).inc()

    def count_report(self, transport: Transport, outcome: str) -> None:
        self._counters[families.INGESTED].labels(transport.value, outcome).inc()

    def count_progress(self) -> None:
        self._counters[families.PROGRESS_WRITES].inc()

    def note_followed(self, logs: int) -> None:
        self._gauges[families.FOLLOWED_LOGS].set(logs)

    def note_event(self, kind: Kind) -> None:
        self._gauges[families.LAST_EVENT].labels(kind.resource).set_to_current_time()

    def note_wait(self, seconds: float) -> None:
        self._histograms[families.QUEUE_WAIT].observe(seconds)

    def note_state(self, *, is_active: bool, queue_depth: int, watches_begun: Mapping[str, float]) -> None:
        """Call it before a scrape. `watches_begun` are seconds since the epoch by resource."""
        self._gauges[families.LEADER].set(is_active)
        self._gauges[families.QUEUE_DEPTH].set(queue_depth)
        for resource, at in watches_begun.items():
            self._gauges[families.WATCH_BEGUN].labels(resource).set(at)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type for an Accept header."""
        encode, content_type = _encoder(accept)
        own = encode(self._registry).decode()
        if not self._speaks():
            return own.encode(), content_type
        runs = self._exposition.render(encode, content_type, list(self._runs.parts()))
        end = END if own.endswith(END) else ""
        return f"{own.removesuffix(END)}{runs}{end}".encode(), content_type


def _encoder(accept: str) -> tuple[Encode, str]:
    """Plain text for an invalid version, for which the library raises an error."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
