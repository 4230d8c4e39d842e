"""What a scrape costs the operator: 5,000 finished DistTests of ten series, each with six suites and 60 bandwidths.

Processor time of this process. `all` is everything made anew, as after a start; `again` is what each further scrape
costs; `one` is a scrape after one ledger has changed. `plain` is the client library by itself, for comparison.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import chain

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bench.figure import Figure
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult
from disttest_operator.cache.cache import Cache
from disttest_operator.core.api.model import Defaults
from disttest_operator.kubernetes.ports import Kind
from disttest_operator.metrics import Metrics, series_collectors
from tests.support.builders.measured import a_measurement
from tests.support.builders.nights import a_night, ledger_body
from tests.support.builders.runs import at
from tests.support.builders.series import Nights
from tests.support.fakes.world import run_body

RUNS, SERIES, ROUNDS = 5000, 10, 15
SUITES = ("collectives", "fully-shard-autograd", "pipeline-schedules", "fsdp-exec-order", "replicate-compile", "ddp")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
FORMATS = {"text": "", "openmetrics": "application/openmetrics-text; version=1.0.0"}
GOAL_SECONDS = 0.05


class _Ledgers(Collector):
    """What the library would collect if nothing were kept."""

    def __init__(self, caches: Cache) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return chain.from_iterable(series_collectors.of(series) for series in self._caches.series())


def measure() -> list[Figure]:
    caches, series = _world()
    figures = []
    for name, accept in FORMATS.items():
        metrics = Metrics(caches, version="1", speaks=lambda: True, clock=lambda: at(0))
        lines = metrics.render(accept)[0].count(b"\n")
        encode, _ = choose_encoder(accept)
        plain = _seconds(lambda encode=encode: encode(_Ledgers(caches)))  # type: ignore[misc]  # bound at once
        everything = _seconds(lambda accept=accept: _fresh(caches).render(accept))  # type: ignore[misc]  # same
        again = _seconds(lambda accept=accept, metrics=metrics: metrics.render(accept))  # type: ignore[misc]  # same
        one = _seconds(
            lambda accept=accept, metrics=metrics: metrics.render(accept),  # type: ignore[misc]  # same
            before=lambda: _count_one_more(caches, series[0]),
        )
        figures += [
            Figure(name=f"scrape-{name}-lines", value=lines, unit="lines", compare="<=", goal=SERIES * 700),
            Figure(name=f"scrape-{name}-again", value=again, unit="s", compare="<=", goal=GOAL_SECONDS),
            Figure(name=f"scrape-{name}-one-changed", value=one, unit="s", compare="<=", goal=GOAL_SECONDS),
            Figure(name=f"scrape-{name}-all-by-plain", value=everything / plain, unit="x", compare="<=", goal=2),
        ]
        print(f"{name}: everything anew {everything:.3f} s, the library by itself {plain:.3f} s of processor time")
    return figures


def _world() -> tuple[Cache, list[Nights]]:
    """Full ledgers, and finished runs in the caches."""
    caches, series = Cache(Defaults(image="runner:1")), []
    points = tuple(
        a_measurement(collective=collective, size_bytes=1 << (20 + power))
        for collective in COLLECTIVES
        for power in range(8)
    )[:60]
    measuring = CaseResult(id="t::bandwidth", outcome=Outcome.PASSED, seconds=1, measurements=points)
    for number in range(SERIES):
        one = Nights(*SUITES)
        one.run(measuring)
        for night in range(31):
            one.report(a_night(night, SUITES))
        series.append(one)
        caches.put(Kind.SERIES, ledger_body(f"s{number}", one.ledger, version=1), at(0))
    done = {"verdict": "Passed", "completionTime": "2026-11-21T02:00:20Z", "phase": "Finished"}
    for number in range(RUNS):
        body = run_body(series=f"s{number % SERIES}")
        body["metadata"] |= {"name": f"r{number}", "uid": f"u{number}", "resourceVersion": "1"}
        caches.put(Kind.RUN, body | {"status": done}, at(0))
    return caches, series


def _count_one_more(caches: Cache, series: Nights) -> None:
    series.report(a_night(series.count, SUITES))
    caches.put(Kind.SERIES, ledger_body("s0", series.ledger, version=series.count), at(0))


def _fresh(caches: Cache) -> Metrics:
    return Metrics(caches, version="1", speaks=lambda: True, clock=lambda: at(0))


def _seconds(do: Callable[[], object], before: Callable[[], None] = lambda: None) -> float:
    """Median of some rounds."""
    spent = []
    for _ in range(ROUNDS):
        before()
        begun = time.process_time()
        do()
        spent.append(time.process_time() - begun)
    return statistics.median(spent)
