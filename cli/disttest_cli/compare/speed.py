"""Durations and bandwidths that changed beyond noise.

Durations vary by a factor, so logarithms of ratios are compared. The median ratio of a suite is the effect of the
machine: it is reported once and subtracted from each case. The rest is noise. Its spread is estimated by 1.4826 x the
median absolute deviation, which few slower cases do not move. A case is reported if its change has a probability of
1 % over all cases of a comparison, is at least 50 % of the expected duration and at least half a second.

Bandwidths are compared by point (collective, type, size); noise has a fixed band for each backend and size, or is
known from earlier reports of the series.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist, median

from disttest_cli.compare.model import GOOD, CaseKey, Drift, DurationChange, Durations, Speed, Trend
from disttest_contract.outcomes import Outcome
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import Report
from disttest_contract.results.thresholds import ThresholdIndex

LEAST_RATIO = 1.5  # smallest ratio reported for a case
LEAST = math.log(LEAST_RATIO)
LEAST_SECONDS = 0.5
FALSE_ALARMS = 0.01  # expected number of false alarms in a comparison of all its cases
SUITE_RATIO = 1.25  # smallest ratio reported for a suite: machines differ that much from run to run
CLOCK_SECONDS = 0.01  # shorter durations are too coarse for a ratio
MOST_SECONDS = 1e7  # longer than any run; a report may claim anything
ENOUGH = 8  # cases of a suite that its median needs
ENOUGH_FOR_SPREAD = 20
ENOUGH_FOR_TAIL = 100
TAIL = 0.01
UNKNOWN_SPREAD = 0.25  # spread that is assumed for fewer cases
ENOUGH_REPORTS = 5  # A among them, to know how long a case usually takes
OF_MEDIAN = 1.2533  # standard error of a median, times spread / sqrt(count)
NORMAL = 1.4826  # standard deviation of normal noise, times its median absolute deviation

Timed = Mapping[CaseKey, float]  # logarithm of the seconds


def compare(a: Report, b: Report, earlier: Sequence[Report] = ()) -> Durations:
    before, after = _timed(a), _timed(b)
    keys = [key for key in after if key in before]
    if not keys:
        return Durations()
    shifts = _shifts(before, after)
    history = _time_history(before, [_timed(report) for report in earlier])
    usual = {key: history[key][0] if key in history else before[key] for key in keys}
    spreads = _spreads(usual, after, shifts)
    factor = NormalDist().inv_cdf(1 - FALSE_ALARMS / len(keys))
    slower: list[DurationChange] = []
    faster: list[DurationChange] = []
    for key in keys:
        own_spread = history[key][1] if key in history else 0.0
        limit = max(LEAST, factor * max(own_spread, spreads[key[0]]))
        expected = [value + shifts[key[0]] for value in (usual[key], before[key])]
        for found, sign in ((slower, 1), (faster, -1)):
            # Beyond A too: a change that A already had is not new.
            if sign * (after[key] - expected[0]) > limit and sign * (after[key] - expected[1]) > LEAST:
                nearest = max(expected) if sign > 0 else min(expected)
                found.append(_duration_change(key, before[key], nearest, after[key]))
    return Durations(
        compared=len(keys),
        least_ratio=math.exp(max(LEAST, factor * min(spreads.values()))),
        drifts=_drifts(before, after, shifts, spreads),
        slower=_notable(slower),
        faster=_notable(faster),
    )


def _timed(report: Report) -> Timed:
    """Durations of good cases. Retried cases and those that follow a crash or hang had cold ranks and do not count."""
    found: dict[CaseKey, float] = {}
    for suite in report.suites:
        is_cold = False
        for case in suite.cases:
            is_timed = case.outcome in GOOD and not case.earlier and 0 <= case.seconds < MOST_SECONDS
            if is_timed and not is_cold:
                found[suite.name, case.id] = math.log(max(case.seconds, CLOCK_SECONDS))
            is_cold = case.outcome in (Outcome.CRASHED, Outcome.HUNG)
    return found


def _is_long(key: CaseKey, *reports: Timed) -> bool:
    return any(timed[key] > math.log(CLOCK_SECONDS) for timed in reports)


def _shifts(before: Timed, after: Timed) -> dict[str, float]:
    """Median change of each suite; that of all suites for a small suite, and 0 if there are few cases in total."""
    found: dict[str, list[float]] = {}
    for key in before.keys() & after.keys():
        by_suite = found.setdefault(key[0], [])
        if _is_long(key, before, after):
            by_suite.append(after[key] - before[key])
    everything = [shift for shifts in found.values() for shift in shifts]
    general = median(everything) if len(everything) >= ENOUGH else 0.0
    return {suite: median(shifts) if len(shifts) >= ENOUGH else general for suite, shifts in found.items()}


def _spreads(before: Timed, after: Timed, shifts: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, list[float]] = {suite: [] for suite in shifts}
    for key in before.keys() & after.keys():
        if _is_long(key, before, after):
            found[key[0]].append(after[key] - before[key] - shifts[key[0]])
    everything = [rest for rests in found.values() for rest in rests]
    general = _spread(everything) if len(everything) >= ENOUGH_FOR_SPREAD else UNKNOWN_SPREAD
    return {suite: _spread(rests) if len(rests) >= ENOUGH_FOR_SPREAD else general for suite, rests in found.items()}


def _spread(rests: Sequence[float]) -> float:
    """Standard deviation of the noise; if its tails are longer than normal, the one that fits the fastest 1 %.

    The fast tail is used because noise is symmetric, and regressions only add slow cases.
    """
    spread = NORMAL * median(map(abs, rests))
    if len(rests) < ENOUGH_FOR_TAIL:
        return spread
    return max(spread, -sorted(rests)[int(TAIL * len(rests))] / -NormalDist().inv_cdf(TAIL))


def _time_history(before: Timed, earlier: Sequence[Timed]) -> dict[CaseKey, tuple[float, float]]:
    """The usual duration of each case on a machine as fast as A's, and its spread."""
    found = {key: [value] for key, value in before.items()}
    for timed in earlier:
        shifts = _shifts(timed, before)
        for key in timed.keys() & before.keys():
            found[key].append(timed[key] + shifts[key[0]])
    return {key: _usual(values) for key, values in found.items() if len(values) >= ENOUGH_REPORTS}


def _usual(values: Sequence[float]) -> tuple[float, float]:
    middle = median(values)
    return middle, _spread([value - middle for value in values])


def _drifts(
    before: Timed, after: Timed, shifts: Mapping[str, float], spreads: Mapping[str, float]
) -> tuple[Drift, ...]:
    factor = NormalDist().inv_cdf(1 - FALSE_ALARMS / len(shifts))
    found = []
    for suite, shift in shifts.items():
        keys = [key for key in after if key[0] == suite and key in before]
        if len(keys) >= ENOUGH:
            seconds = [sum(math.exp(timed[key]) for key in keys) for timed in (before, after)]
            limit = max(math.log(SUITE_RATIO), factor * OF_MEDIAN * spreads[suite] / math.sqrt(len(keys)))
            found.append(_drift(suite, len(keys), shift, seconds=seconds, limit=limit))
    return tuple(found)


def _drift(suite: str, cases: int, shift: float, *, seconds: Sequence[float], limit: float) -> Drift:
    is_notable = abs(shift) > limit and (seconds[1] - seconds[0]) * shift > LEAST_SECONDS * abs(shift)
    trend = (Trend.WORSE if shift > 0 else Trend.BETTER) if is_notable else Trend.SAME
    return Drift(
        suite=suite,
        cases=cases,
        ratio=math.exp(shift),
        before_seconds=seconds[0],
        after_seconds=seconds[1],
        trend=trend,
    )


def _duration_change(key: CaseKey, before: float, expected: float, after: float) -> DurationChange:
    return DurationChange(
        suite=key[0],
        case=key[1],
        before_seconds=math.exp(before),
        expected_seconds=math.exp(expected),
        after_seconds=math.exp(after),
    )


def _notable(found: Iterable[DurationChange]) -> tuple[DurationChange, ...]:
    notable = [one for one in found if abs(one.after_seconds - one.expected_seconds) > LEAST_SECONDS]
    return tuple(sorted(notable, key=lambda one: -abs(one.after_seconds - one.expected_seconds)))


BAND = 0.05  # relative noise over NCCL
SMALL_BAND = 0.2  # the same for sizes below LARGE_BYTES
LARGE_BYTES = 32 << 20
SHARED_BAND = 0.5  # over anything else
SPREADS = 3  # of earlier reports that count as noise

Point = tuple[str, str, int]  # collective, type, size


def compare_bandwidths(a: Report, b: Report, earlier: Sequence[Report] = ()) -> tuple[Speed, ...]:
    before, after = _slowest(a), _slowest(b)
    history = _bandwidth_history(before, [_slowest(report) for report in earlier])
    asked = ThresholdIndex(b.thresholds)
    found = []
    for point, one in after.items():
        if point in before:
            wanted = asked.highest(one)
            threshold = wanted.min_bus_bandwidth_bytes_per_second if wanted else None
            least = _band(b.backend, one.size_bytes)
            found.append(_speed(before[point], one, history.get(point, ()), least=least, threshold=threshold))
    return tuple(found)


def gone_bandwidths(a: Report, b: Report) -> int:
    return len(_slowest(a).keys() - _slowest(b).keys())


def _speed(
    before: Measurement, after: Measurement, usual: Sequence[float], *, least: float, threshold: int | None
) -> Speed:
    then, now = before.bus_bandwidth_bytes_per_second, after.bus_bandwidth_bytes_per_second
    middle = median(usual) if usual else then
    spread = NORMAL * median(abs(math.log(value / middle)) for value in usual) if usual else 0.0
    band = max(least, SPREADS * spread)
    trend = Trend.SAME
    # Beyond A and beyond the usual value: neither an unusual A nor an old change is new.
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


def _bandwidth_history(
    before: Mapping[Point, Measurement], earlier: Sequence[Mapping[Point, Measurement]]
) -> dict[Point, list[float]]:
    found: dict[Point, list[float]] = defaultdict(list)
    for report in ([before, *earlier]) if earlier else ():
        for point, one in report.items():
            found[point].append(one.bus_bandwidth_bytes_per_second)
    return {point: values for point, values in found.items() if len(values) >= ENOUGH_REPORTS}


def _slowest(report: Report) -> dict[Point, Measurement]:
    """The slowest measurement of each point; a forged report may contain infinite values."""
    found: dict[Point, Measurement] = {}
    for suite in report.suites:
        for case in suite.cases:
            for one in case.measurements:
                point = one.collective, one.dtype, one.size_bytes
                is_number = math.isfinite(one.bus_bandwidth_bytes_per_second) and one.bus_bandwidth_bytes_per_second > 0
                if (
                    is_number
                    and one.bus_bandwidth_bytes_per_second <= found.get(point, one).bus_bandwidth_bytes_per_second
                ):
                    found[point] = one
    return found
