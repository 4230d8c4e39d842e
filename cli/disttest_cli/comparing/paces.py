"""Which cases got slower, beyond noise.

Durations of a case vary by a factor, not by seconds, so all is done with logarithms of ratios. What befell all cases
of a suite alike, the machine's doing, is its median: told once, and taken off each case. What is left of most cases is
noise, and its spread is known from them: 1.4826 x the median of the distances, which the few cases that really got
slower do not move. A case is told of when it is beyond what that noise does once in a hundred comparisons of so many
cases, and half as long again as expected, and half a second longer.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist, median

from disttest_cli.comparing.model import GOOD, CaseKey, Drift, Pace, Paces, Trend
from disttest_contract.outcomes import Outcome
from disttest_contract.report import Report

LEAST_RATIO = 1.5  # less is told of no single case
LEAST = math.log(LEAST_RATIO)
LEAST_SECONDS = 0.5
FALSE_ALARMS = 0.01  # to be expected of a comparison, of all its cases together
SUITE_RATIO = 1.25  # less is told of no suite: machines differ so much from night to night
CLOCK_SECONDS = 0.01  # what is shorter is timed too coarsely for a ratio
MOST_SECONDS = 1e7  # longer than any run; a report may claim anything
ENOUGH = 8  # cases of a suite, for a median that speaks for it
ENOUGH_FOR_SPREAD = 20
ENOUGH_FOR_TAIL = 100
TAIL = 0.01
UNKNOWN_SPREAD = 0.25  # of a ratio, where there are fewer cases
ENOUGH_REPORTS = 5  # A among them, to know how long a case usually takes
OF_MEDIAN = 1.2533  # times the spread over the root of their number is how far a median of so many may be off
NORMAL = 1.4826  # times the median distance is the standard deviation, of normal noise

Timed = Mapping[CaseKey, float]  # logarithm of the seconds


def compare(a: Report, b: Report, earlier: Sequence[Report] = ()) -> Paces:
    before, after = _timed(a), _timed(b)
    keys = [key for key in after if key in before]
    if not keys:
        return Paces()
    shifts = _shifts(before, after)
    history = _history(before, [_timed(report) for report in earlier])
    usual = {key: history[key][0] if key in history else before[key] for key in keys}
    spreads = _spreads(usual, after, shifts)
    factor = NormalDist().inv_cdf(1 - FALSE_ALARMS / len(keys))
    slower: list[Pace] = []
    faster: list[Pace] = []
    for key in keys:
        own_spread = history[key][1] if key in history else 0.0
        limit = max(LEAST, factor * max(own_spread, spreads[key[0]]))
        expected = [value + shifts[key[0]] for value in (usual[key], before[key])]
        for found, sign in ((slower, 1), (faster, -1)):
            # Beyond A too: what was so in A already is no news.
            if sign * (after[key] - expected[0]) > limit and sign * (after[key] - expected[1]) > LEAST:
                nearest = max(expected) if sign > 0 else min(expected)
                found.append(_pace(key, before[key], nearest, after[key]))
    return Paces(
        compared=len(keys),
        least_ratio=math.exp(max(LEAST, factor * min(spreads.values()))),
        drifts=_drifts(before, after, shifts, spreads),
        slower=_notable(slower),
        faster=_notable(faster),
    )


def _timed(report: Report) -> Timed:
    """Of good cases. One that was tried again, or follows one that took the ranks with it, began with cold ranks."""
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
    """Of each suite; of one with few cases, that of all suites together; of few cases in all, none."""
    found: dict[str, list[float]] = {}
    for key in before.keys() & after.keys():
        by_suite = found.setdefault(key[0], [])
        if _is_long(key, before, after):
            by_suite.append(after[key] - before[key])
    everything = [shift for shifts in found.values() for shift in shifts]
    general = median(everything) if len(everything) >= ENOUGH else 0.0
    return {suite: median(shifts) if len(shifts) >= ENOUGH else general for suite, shifts in found.items()}


def _spreads(before: Timed, after: Timed, shifts: Mapping[str, float]) -> dict[str, float]:
    """Of each suite, as above."""
    found: dict[str, list[float]] = {suite: [] for suite in shifts}
    for key in before.keys() & after.keys():
        if _is_long(key, before, after):
            found[key[0]].append(after[key] - before[key] - shifts[key[0]])
    everything = [rest for rests in found.values() for rest in rests]
    general = _spread(everything) if len(everything) >= ENOUGH_FOR_SPREAD else UNKNOWN_SPREAD
    return {suite: _spread(rests) if len(rests) >= ENOUGH_FOR_SPREAD else general for suite, rests in found.items()}


def _spread(rests: Sequence[float]) -> float:
    """As if the noise were normal; where it has longer tails, such that it has them right at the hundredth fastest.

    Noise makes as many cases faster as slower, but what is wrong makes none faster.
    """
    spread = NORMAL * median(map(abs, rests))
    if len(rests) < ENOUGH_FOR_TAIL:
        return spread
    return max(spread, -sorted(rests)[int(TAIL * len(rests))] / -NormalDist().inv_cdf(TAIL))


def _history(before: Timed, earlier: Sequence[Timed]) -> dict[CaseKey, tuple[float, float]]:
    """How long a case usually takes on a machine as fast as A's was, and the spread of that."""
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


def _pace(key: CaseKey, before: float, expected: float, after: float) -> Pace:
    return Pace(
        suite=key[0],
        case=key[1],
        before_seconds=math.exp(before),
        expected_seconds=math.exp(expected),
        after_seconds=math.exp(after),
    )


def _notable(found: Iterable[Pace]) -> tuple[Pace, ...]:
    """Those that cost time, the ones that cost most first."""
    notable = [one for one in found if abs(one.after_seconds - one.expected_seconds) > LEAST_SECONDS]
    return tuple(sorted(notable, key=lambda one: -abs(one.after_seconds - one.expected_seconds)))
