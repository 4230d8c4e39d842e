"""Geometry of charts: bus bandwidth by size for each collective, both axes logarithmic."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from disttest_cli.formats.values import grouped, known
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import Report
from disttest_contract.results.thresholds import Threshold, ThresholdResult, standings
from disttest_contract.text.formatting import BYTES_PER_SECOND, show_bytes, show_speeds

CHARTS = 24
LINES = 7
POINTS = 64  # of a line
LARGEST_BYTES = 1 << 60
WIDTH, HEIGHT = 340, 210
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 10, 30
SIZE_TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.begin + share * (self.end - self.begin), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLine:
    dtype: str
    number: int  # index of the style
    points: tuple[tuple[float, float, str], ...]

    @property
    def path(self) -> str:
        return " ".join(f"{x},{y}" for x, y, _ in self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A threshold; `is_met` is False if any measurement misses it."""

    x: float
    y: float
    is_met: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    collective: str
    lines: tuple[PlotLine, ...]
    marks: tuple[Mark, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    summary: str
    rows: tuple[Measurement, ...]

    @property
    def missed(self) -> tuple[Mark, ...]:
        return tuple(mark for mark in self.marks if not mark.is_met)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    judged: tuple[ThresholdResult, ...]  # measurements with a threshold, the worst first
    charts: tuple[Chart, ...]
    left_out: int  # number of charts that are omitted


def bandwidth(report: Report) -> Bandwidth:
    every = [one for suite in report.suites for case in suite.cases for one in case.measurements]
    measured = [one for one in every if can_be_drawn(one)]
    judged = tuple(one for one in standings(every, report.thresholds) if one.threshold)
    names = list(dict.fromkeys(one.collective for one in measured))
    missed = {one.collective for one in judged if not one.is_met}
    names.sort(key=lambda name: name not in missed)
    charts = tuple(
        chart(
            name, [one for one in measured if one.collective == name], [one for one in judged if one.collective == name]
        )
        for name in names[:CHARTS]
    )
    return Bandwidth(judged=judged, charts=charts, left_out=len(names) - len(charts))


def can_be_drawn(one: Measurement) -> bool:
    return 0 < one.size_bytes <= LARGEST_BYTES and bool(known(one.bus_bandwidth_bytes_per_second * 1e-6))


def chart(name: str, measured: Sequence[Measurement], judged: Sequence[ThresholdResult]) -> Chart:
    limits = [one.threshold for one in judged if one.threshold]
    sizes = [*(one.size_bytes for one in measured), *(one.size_bytes for one in limits)]
    speeds = [
        *(one.bus_bandwidth_bytes_per_second for one in measured),
        *(one.min_bus_bandwidth_bytes_per_second for one in limits),
    ]
    x = Axis(low=min(sizes) / 1.3, high=max(sizes) * 1.3, begin=LEFT, end=WIDTH - RIGHT)
    y = Axis(low=10.0 ** math.floor(math.log10(min(speeds))), high=max(speeds) * 1.6, begin=HEIGHT - BOTTOM, end=TOP)
    dtypes = list(dict.fromkeys(one.dtype for one in measured))[:LINES]
    rows = sorted(measured, key=lambda one: (dtypes.index(one.dtype) if one.dtype in dtypes else LINES, one.size_bytes))
    best = max(measured, key=lambda one: one.bus_bandwidth_bytes_per_second)
    return Chart(
        collective=name,
        lines=tuple(_line(dtype, number, measured, x, y) for number, dtype in enumerate(dtypes)),
        marks=_marks(judged, x, y),
        x_ticks=tuple((x.at(size), show_bytes(size)) for size in _size_ticks(sizes)),
        y_ticks=tuple((y.at(value), _short(value)) for value in _decades(y)),
        summary=f"at most {speed(best.bus_bandwidth_bytes_per_second)}, at {show_bytes(best.size_bytes)} {best.dtype}",
        rows=tuple(rows[: LINES * POINTS]),
    )


def speed(bytes_per_second: float) -> str:
    return show_speeds(bytes_per_second, -1.0)[0]


def _line(dtype: str, number: int, measured: Iterable[Measurement], x: Axis, y: Axis) -> PlotLine:
    """The slowest measurement of each size, as for thresholds."""
    slowest: dict[int, float] = {}
    for one in measured:
        if one.dtype == dtype:
            slowest[one.size_bytes] = min(one.bus_bandwidth_bytes_per_second, slowest.get(one.size_bytes, math.inf))
    points = sorted(slowest.items())[:POINTS]
    return PlotLine(
        dtype=dtype,
        number=number,
        points=tuple((x.at(size), y.at(bus), f"{show_bytes(size)} {dtype}: {speed(bus)}") for size, bus in points),
    )


def _marks(judged: Iterable[ThresholdResult], x: Axis, y: Axis) -> tuple[Mark, ...]:
    found = grouped((one, one.threshold) for one in judged if one.threshold)
    return tuple(
        Mark(
            x=x.at(limit.size_bytes),
            y=y.at(limit.min_bus_bandwidth_bytes_per_second),
            is_met=all(one.is_met for one in some),
            words=_words(limit, some),
        )
        for limit, some in found.items()
    )


def _words(limit: Threshold, some: Sequence[ThresholdResult]) -> str:
    asked = f"{show_bytes(limit.size_bytes)} {limit.dtype}".strip()
    wanted = speed(limit.min_bus_bandwidth_bytes_per_second)
    short = [one for one in some if not one.is_met]
    if not short:
        return f"threshold {wanted} at {asked}: met"
    found = "; ".join(
        f"{one.dtype} reached {speed(one.measured.bus_bandwidth_bytes_per_second)}" if one.measured else "not measured"
        for one in short
    )
    return f"threshold {wanted} at {asked}: missed, {found}"


def _decades(axis: Axis) -> list[float]:
    first, last = math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high))
    step = max(1, (last - first) // 5 + 1)
    return [10.0**power for power in range(first, last + 1, step)]


def _size_ticks(sizes: Sequence[int]) -> list[int]:
    """Powers of two, at most SIZE_TICKS of them."""
    first, last = math.ceil(math.log2(min(sizes))), math.floor(math.log2(max(sizes)))
    step = max(1, -(-(last - first) // (SIZE_TICKS - 1)))
    return [1 << power for power in range(first, last + 1, step)] or [min(sizes)]


def _short(bytes_per_second: float) -> str:
    """Without decimals, for powers of ten."""
    size, unit = next(((size, unit) for size, unit in BYTES_PER_SECOND if bytes_per_second >= size * 0.999), (1, "B/s"))
    return f"{bytes_per_second / size:.0f} {unit}"
