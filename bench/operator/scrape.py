"""What a scrape costs the operator: 5,000 finished DistTests of ten series, each with six suites and 60 bandwidths.

CPU seconds of this process. `all` builds everything, as after a start; `again` is every further scrape; `one` is a
scrape after one ledger has changed. `plain` is the client library alone, for comparison.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bench.figure import Figure, at_most
from bench.operator import load
from bench.operator.bench_cluster import NAMESPACE
from bench.runner import gangs
from devcluster.controlplane.kubeapi import Json
from devcluster.stubnode import behaviour
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult
from disttest_operator.cache.cache import Cache
from disttest_operator.core.api import parse
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.evidence import Evidence, Observed, ReportFound
from disttest_operator.core.series import ledger, run_results
from disttest_operator.core.status import status
from disttest_operator.core.verdict.rule import Ending
from disttest_operator.metrics import Metrics, series_collectors

RUNS, SERIES, ROUNDS = 5000, 10, 15
SUITES = ("collectives", "fully-shard-autograd", "pipeline-schedules", "fsdp-exec-order", "replicate-compile", "ddp")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
FORMATS = {"text": "", "openmetrics": "application/openmetrics-text; version=1.0.0"}
GOAL_SECONDS = 0.05
CASES = 40  # of each suite
DEFAULTS = Defaults(image="runner:1")
TIME = "2026-11-21T02:00:00Z"
CREATED = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
POINTS = tuple(
    Measurement(
        collective=collective,
        dtype="float32",
        size_bytes=1 << (20 + power),
        ranks=4,
        iterations=20,
        seconds=0.00451,
        fastest_rank_seconds=0.0045,
        slowest_rank_seconds=0.00902,
        slowest_rank=3,
        alg_bytes_per_second=238.08e9,
        bus_bandwidth_bytes_per_second=400e9,
        wrong_elements=0,
    )
    for collective in COLLECTIVES
    for power in range(8)
)[:60]


class _Ledgers(Collector):
    """What the library would collect without our cache of rendered lines."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return chain.from_iterable(series_collectors.of(series) for series in self._cache.series())


def measure() -> list[Figure]:
    cache, series = _world()
    figures = []
    for name, accept in FORMATS.items():
        metrics = Metrics(cache, version="1", speaks=lambda: True, clock=lambda: CREATED)
        lines = metrics.render(accept)[0].count(b"\n")
        encode, _ = choose_encoder(accept)
        plain = _seconds(lambda encode=encode: encode(_Ledgers(cache)))  # type: ignore[misc]  # bound at once
        everything = _seconds(lambda accept=accept: _fresh(cache).render(accept))  # type: ignore[misc]  # same
        again = _seconds(lambda accept=accept, metrics=metrics: metrics.render(accept))  # type: ignore[misc]  # same
        one = _seconds(
            lambda accept=accept, metrics=metrics: metrics.render(accept),  # type: ignore[misc]  # same
            before=lambda: _count_one_more(cache, series[0]),
        )
        figures += [
            at_most(f"scrape-{name}-lines", lines, "lines", SERIES * 700),
            at_most(f"scrape-{name}-again", again, "s", GOAL_SECONDS, digits=6),
            at_most(f"scrape-{name}-one-changed", one, "s", GOAL_SECONDS, digits=6),
            at_most(f"scrape-{name}-all-by-plain", everything / plain, "x", 2, digits=6),
        ]
        print(f"{name}: rendering everything {everything:.3f} s, the library alone {plain:.3f} s of CPU time")
    return figures


class MeasuredSeries:
    """A ledger that counts one run after the other, as the operator does."""

    def __init__(self, number: int) -> None:
        self.name = f"s{number}"
        self._ledger: ledger.Status = {}
        self._plan = gangs.plan(*(SuitePlan(name=name, builtin=name) for name in SUITES), nodes=2, ranks=2)

    def add_run(self) -> None:
        """Every seventh run has a failure; the first one has measurements."""
        number = self._ledger.get("runCount", 0)
        verdict = Verdict.TESTS_FAILED if number % 7 == 3 else Verdict.PASSED
        report = behaviour.make_report(self._plan, verdict, CASES, CREATED.timestamp())
        if not number:
            first, *others = report.suites
            measuring = CaseResult(id="t::bandwidth", outcome=Outcome.PASSED, seconds=1, measurements=POINTS)
            report = replace(report, suites=(replace(first, cases=(*first.cases, measuring)), *others))
        body = load.run(f"night-{number}", self.name)
        body["spec"]["suites"] = [{"name": name} for name in SUITES]
        body["metadata"] |= {"uid": f"{self.name}-{number}", "resourceVersion": "1", "creationTimestamp": TIME}
        evidence = Evidence(
            test=parse.parse(body, DEFAULTS),
            seen=Observed(report=ReportFound(report=report, raw=b"", sha256="ab" * 32)),
            now=CREATED + timedelta(days=number),
        )
        last = status.finished(evidence, Ending(verdict=verdict, reason=report.reason, message=report.message))
        entry = ledger.make_entry(uid=body["metadata"]["uid"], name=body["metadata"]["name"], status=last)
        folded = ledger.fold(self._ledger, entry, run_results.of(evidence, last), nodes=2)
        self._ledger = ledger.settle(folded, [entry["uid"]])

    @property
    def body(self) -> Json:
        version = str(self._ledger["runCount"])
        meta = {"name": self.name, "namespace": NAMESPACE, "uid": self.name, "resourceVersion": version}
        kind = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTestSeries"}
        return {**kind, "metadata": meta, "status": dict(self._ledger)}


def _world() -> tuple[Cache, list[MeasuredSeries]]:
    """Fill the cache with full ledgers and finished runs."""
    cache, series = Cache(DEFAULTS), [MeasuredSeries(number) for number in range(SERIES)]
    for one in series:
        for _ in range(32):
            one.add_run()
        cache.put(Kind.SERIES, one.body, CREATED)
    done = {"verdict": "Passed", "completionTime": "2026-11-21T02:00:20Z", "phase": "Finished"}
    for number in range(RUNS):
        meta = {"name": f"r{number}", "uid": f"u{number}", "resourceVersion": "1", "creationTimestamp": TIME}
        run = load.run(f"r{number}", f"s{number % SERIES}")
        cache.put(Kind.RUN, run | {"metadata": run["metadata"] | meta, "status": done}, CREATED)
    return cache, series


def _count_one_more(cache: Cache, series: MeasuredSeries) -> None:
    series.add_run()
    cache.put(Kind.SERIES, series.body, CREATED)


def _fresh(cache: Cache) -> Metrics:
    return Metrics(cache, version="1", speaks=lambda: True, clock=lambda: CREATED)


def _seconds(do: Callable[[], object], before: Callable[[], None] = lambda: None) -> float:
    """Median of some rounds."""
    spent = []
    for _ in range(ROUNDS):
        before()
        started = time.process_time()
        do()
        spent.append(time.process_time() - started)
    return statistics.median(spent)
