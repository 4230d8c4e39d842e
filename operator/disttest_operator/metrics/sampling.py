"""From rows of labels and numbers to the Prometheus client's families."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from disttest_operator.core import bodies
from disttest_operator.core.histograms import BUCKETS
from disttest_operator.metrics.families import Family, Type

Row = tuple[tuple[str, ...], float]  # values of the labels that follow the common ones, and the number


def rows(family: Family, common: tuple[str, ...], samples: Iterable[Row]) -> Metric:
    """A counter or gauge."""
    make = CounterMetricFamily if family.type is Type.COUNTER else GaugeMetricFamily
    metric = make(family.full_name, family.meaning, labels=family.labels)
    for labels, number in samples:
        metric.add_metric((*common, *labels), number)
    return metric


def histogram(
    family: Family,
    common: tuple[str, ...],
    told: Sequence[Mapping[str, Any]] | None,
    born: Iterable[str] = (),
    *,
    runs: Sequence[Mapping[str, Any]] = (),
) -> Metric:
    """From the histograms of a ledger; those of `born` are there at 0. Of `runs` each bucket names the newest."""
    metric = HistogramMetricFamily(family.full_name, family.meaning, labels=family.labels)
    key = family.labels[-1]
    empty = [{"le": bound, "count": 0} for bound in BUCKETS]
    known: dict[str, Mapping[str, Any]] = {str(value): {"buckets": empty, "sum": 0, "count": 0} for value in born}
    known |= {row[key]: row for row in told or ()}
    for value, row in known.items():
        bounds = [one["le"] for one in row.get("buckets") or ()]
        exemplars = _exemplars([*bounds, float("inf")], [run for run in runs if run["verdict"] == value])
        counts = [one["count"] for one in row.get("buckets") or ()]
        texts = [*(floatToGoString(bound) for bound in bounds), "+Inf"]  # type: ignore[no-untyped-call]  # library without types
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = [
            (text, count, exemplars[number]) if number in exemplars else (text, count)
            for number, (text, count) in enumerate(zip(texts, [*counts, row["count"]], strict=True))
        ]
        metric.add_metric((*common, value), buckets=buckets, sum_value=row["sum"])
    return metric


def _exemplars(bounds: Sequence[float], runs: Iterable[Mapping[str, Any]]) -> dict[int, Exemplar]:
    """The number of a bucket to the newest run that fell into it, and not into one before."""
    found = {}
    for run in runs:
        seconds, at = run.get("seconds"), bodies.time(run.get("time"))
        if seconds is not None and at and run.get("name"):
            number = next(index for index, bound in enumerate(bounds) if seconds <= bound)
            found[number] = Exemplar({"run": run["name"]}, seconds, at.timestamp())
    return found
