"""The text of a scrape, from parts that are encoded again only when their state has changed.

Most of thousands of lines do not change between scrapes, and the client library takes 15 µs for each. So each part,
such as a ledger, is encoded once for each of its states, and cached by family.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from disttest_operator.core.observed import decoding
from disttest_operator.core.series.ledger import BUCKETS
from disttest_operator.metrics.families import Family, FamilyType

Encode = Callable[[Collector], bytes]
Lines = dict[str, tuple[str, str]]  # family's name -> its header, its samples

END = "# EOF\n"  # of OpenMetrics
FORMATS = 4  # that are cached: a scraper may request any version
HEADER = ("# HELP ", "# TYPE ", "# UNIT ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpositionPart:
    """`make` must return the same families for the same `state`."""

    key: Hashable
    state: Hashable
    make: Callable[[], Iterable[Metric]]


class Exposition:
    """Caches encoded parts for each format."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Hashable, tuple[Hashable, Lines]]] = {}

    def render(self, encode: Encode, content_type: str, parts: Sequence[ExpositionPart]) -> str:
        """All families, each with one header, without an end mark."""
        before = self._kept.pop(content_type, {})
        kept = {part.key: _encoded(encode, part, before.get(part.key)) for part in parts}
        self._kept[content_type] = kept
        while len(self._kept) > FORMATS:
            del self._kept[next(iter(self._kept))]
        pieces = [lines for _, lines in kept.values()]
        names = dict.fromkeys(name for lines in pieces for name in lines)
        return "".join(_family(name, pieces) for name in names)


def _encoded(encode: Encode, part: ExpositionPart, before: tuple[Hashable, Lines] | None) -> tuple[Hashable, Lines]:
    if before and before[0] == part.state:
        return before
    return part.state, _split(encode(_FixedCollector(list(part.make()))).decode())


class _FixedCollector(Collector):
    """Passes finished metrics to an encoder, which takes a registry."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return iter(self._metrics)


def _split(text: str) -> Lines:
    """Split by family, including families without samples, which have a header."""
    lines: Lines = {}
    name, header, samples = "", "", ""
    for line in text.removesuffix(END).removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            lines[name] = (header, samples)
            name, header, samples = line.split(" ", 3)[2], f"{line}\n", ""
        elif line.startswith(HEADER):
            header += f"{line}\n"
        elif line:
            samples += f"{line}\n"
    lines[name] = (header, samples)
    del lines[""]
    return lines


def _family(name: str, pieces: Sequence[Lines]) -> str:
    found = [lines[name] for lines in pieces if name in lines]
    return found[0][0] + "".join(samples for _, samples in found)


Row = tuple[tuple[str, ...], float]  # values of the labels after the common ones, and the number


def rows(family: Family, common: tuple[str, ...], samples: Iterable[Row]) -> Metric:
    """A counter or gauge."""
    make = CounterMetricFamily if family.type is FamilyType.COUNTER else GaugeMetricFamily
    metric = make(family.full_name, family.meaning, labels=family.labels)
    for labels, number in samples:
        metric.add_metric((*common, *labels), number)
    return metric


def single(family: Family, common: tuple[str, ...], number: float | None) -> Metric:
    """A family with one sample, or none without a number."""
    return rows(family, common, [] if number is None else [((), number)])


def histogram(
    family: Family,
    common: tuple[str, ...],
    histograms: Sequence[Mapping[str, Any]] | None,
    expected: Iterable[str] = (),
    *,
    runs: Sequence[Mapping[str, Any]] = (),
) -> Metric:
    """A family from a ledger's histograms. `expected` values start at 0; `runs` are exemplars of buckets."""
    metric = HistogramMetricFamily(family.full_name, family.meaning, labels=family.labels)
    key = family.labels[-1]
    empty = [{"le": bound, "count": 0} for bound in BUCKETS]
    known: dict[str, Mapping[str, Any]] = {str(value): {"buckets": empty, "sum": 0, "count": 0} for value in expected}
    known |= {row[key]: row for row in histograms or ()}
    for value, row in known.items():
        counts = {one["le"]: one["count"] for one in row.get("buckets") or ()} | {float("inf"): row["count"]}
        exemplars = _exemplars(counts, [run for run in runs if run["verdict"] == value])
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        for bound, count in counts.items():
            bucket = (floatToGoString(bound), count)  # type: ignore[no-untyped-call]  # library without types
            buckets.append((*bucket, exemplars[bound]) if bound in exemplars else bucket)
        metric.add_metric((*common, value), buckets=buckets, sum_value=row["sum"])
    return metric


def _exemplars(bounds: Iterable[float], runs: Iterable[Mapping[str, Any]]) -> dict[float, Exemplar]:
    """The newest run of each bucket, by the bucket's bound."""
    found = {}
    for run in runs:
        seconds, at = run.get("seconds"), decoding.time(run.get("time"))
        if seconds is not None and at and run.get("name"):
            bucket = next(bound for bound in bounds if seconds <= bound)
            found[bucket] = Exemplar({"run": run["name"]}, seconds, at.timestamp())
    return found
