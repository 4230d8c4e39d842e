"""Collectives, as the last run of a series that measured them did."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from disttest_operator.metrics import families, sampling

STATS = {"median": "seconds", "slowest": "slowestSeconds"}


def of(status: Mapping[str, Any], common: tuple[str, ...]) -> Iterator[Metric]:
    points = (status.get("bandwidth") or {}).get("points") or ()
    fields = {
        families.BUSBW: "busBytesPerSecond",
        families.BUSBW_REFERENCE: "referenceBytesPerSecond",
        families.WRONG_ELEMENTS: "wrongElements",
    }
    for family, field in fields.items():
        yield sampling.rows(family, common, ((_place(point), point[field]) for point in points if field in point))
    times = (
        ((*_place(point), stat), point[field]) for point in points for stat, field in STATS.items() if field in point
    )
    yield sampling.rows(families.COLLECTIVE_TIME, common, times)


def _place(point: Mapping[str, Any]) -> tuple[str, ...]:
    return point["collective"], point["dtype"], str(point["sizeBytes"]), str(point["nodes"])
