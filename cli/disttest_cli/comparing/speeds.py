"""Which bandwidths changed, beyond noise.

The band of noise is what such numbers are known to vary by from night to night where nothing changed: over NCCL a few
percent at sizes at which they are bandwidth, more where they are latency, and on gloo as much as everything on shared
processors. Earlier reports make it wider where they vary more; so few of them are no reason to make it narrower.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

from disttest_cli.comparing.model import Speed, Trend
from disttest_contract.measurement import Measurement
from disttest_contract.report import Report
from disttest_contract.thresholds import Asked

BAND = 0.05  # over NCCL
SMALL_BAND = 0.2  # the same, of sizes below LARGE_BYTES
LARGE_BYTES = 32 << 20
SHARED_BAND = 0.5  # over anything else
SPREADS = 3  # of the earlier reports
NORMAL = 1.4826  # times the median distance is the standard deviation, of normal noise
ENOUGH_REPORTS = 5  # A among them, to know what is usual

Point = tuple[str, str, int]  # collective, type, size


def compare(a: Report, b: Report, earlier: Sequence[Report] = ()) -> tuple[Speed, ...]:
    """Of what both have measured, in the order of B."""
    before, after = _slowest(a), _slowest(b)
    history = _history(before, [_slowest(report) for report in earlier])
    asked = Asked(b.thresholds)
    found = []
    for point, one in after.items():
        if point in before:
            wanted = asked.highest(one)
            threshold = wanted.min_bus_bandwidth_bytes_per_second if wanted else None
            least = _band(b.backend, one.size_bytes)
            found.append(_speed(before[point], one, history.get(point, ()), least=least, threshold=threshold))
    return tuple(found)


def gone(a: Report, b: Report) -> int:
    """How many points A has measured and B has not."""
    return len(_slowest(a).keys() - _slowest(b).keys())


def _speed(
    before: Measurement, after: Measurement, usual: Sequence[float], *, least: float, threshold: int | None
) -> Speed:
    then, now = before.bus_bytes_per_second, after.bus_bytes_per_second
    middle = median(usual) if usual else then
    spread = NORMAL * median(abs(math.log(value / middle)) for value in usual) if usual else 0.0
    band = max(least, SPREADS * spread)
    trend = Trend.SAME
    # Beyond A and beyond what is usual: neither a lucky A nor what was always so is news.
    if now < min(then * (1 - least), middle * (1 - band)):
        trend = Trend.WORSE
    elif now > max(then * (1 + least), middle * (1 + band)):
        trend = Trend.BETTER
    return Speed(
        collective=after.collective,
        dtype=after.dtype,
        size_bytes=after.size_bytes,
        before=then,
        after=now,
        band=band,
        trend=trend,
        usual=middle if usual else None,
        threshold=threshold,
    )


def _band(backend: str, size_bytes: int) -> float:
    if backend != "nccl":
        return SHARED_BAND
    return BAND if size_bytes >= LARGE_BYTES else SMALL_BAND


def _history(
    before: Mapping[Point, Measurement], earlier: Sequence[Mapping[Point, Measurement]]
) -> dict[Point, list[float]]:
    found: dict[Point, list[float]] = defaultdict(list)
    for report in ([before, *earlier]) if earlier else ():
        for point, one in report.items():
            found[point].append(one.bus_bytes_per_second)
    return {point: values for point, values in found.items() if len(values) >= ENOUGH_REPORTS}


def _slowest(report: Report) -> dict[Point, Measurement]:
    """Of what was measured several times the slowest counts. A report may hold numbers that are none."""
    found: dict[Point, Measurement] = {}
    for suite in report.suites:
        for case in suite.cases:
            for one in case.measurements:
                point = one.collective, one.dtype, one.size_bytes
                is_number = math.isfinite(one.bus_bytes_per_second) and one.bus_bytes_per_second > 0
                if is_number and one.bus_bytes_per_second <= found.get(point, one).bus_bytes_per_second:
                    found[point] = one
    return found
