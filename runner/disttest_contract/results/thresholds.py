"""Bandwidth thresholds and their comparison with measurements, shared by operator, runner and command line. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.results.measurement import COLLECTIVES, DTYPES, Measurement
from disttest_contract.text.formatting import show_bytes, show_speeds
from disttest_contract.text.json_values import fields_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The bus bandwidth that a collective must reach at one size; without a `dtype`, in every type that is measured.

    If several apply to one measurement, the highest counts.
    """

    collective: str
    dtype: str = ""
    size_bytes: int
    min_bus_bandwidth_bytes_per_second: int

    @property
    def name(self) -> str:
        """`all_reduce of 1 GiB float32`."""
        return f"{self.collective} of {show_bytes(self.size_bytes)}{f' {self.dtype}' if self.dtype else ''}"

    @property
    def case_id(self) -> str:
        """The id of the case that fails if nothing was measured."""
        kind = f"-{self.dtype}" if self.dtype else ""
        return f"thresholds::{self.collective}[{self.size_bytes}{kind}]"

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises KeyError or ValueError for anything else than a threshold."""
        numbers = data["sizeBytes"], data["minBusBandwidthBytesPerSecond"]
        names = data["collective"], data["dtype"]
        are_numbers = all(type(number) is int and number > 0 for number in numbers)
        if not are_numbers or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{data!r:.200} is not a threshold")
        (collective, dtype), (size, bandwidth) = names, numbers
        return cls(collective=collective, size_bytes=size, min_bus_bandwidth_bytes_per_second=bandwidth, dtype=dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdResult:
    """A measurement and its threshold; one of the two can be missing. An empty `dtype` is any type."""

    collective: str
    dtype: str
    size_bytes: int
    measured: Measurement | None
    threshold: Threshold | None

    @property
    def is_met(self) -> bool:
        """A threshold without a measurement is not met."""
        return self.threshold is None or (self.measured is not None and _reaches(self.measured, self.threshold))

    @property
    def share(self) -> float:
        """The measured bandwidth as a part of the threshold; 0 if either is missing."""
        if self.measured is None or self.threshold is None:
            return 0.0
        return self.measured.bus_bandwidth_bytes_per_second / self.threshold.min_bus_bandwidth_bytes_per_second


def is_sound(one: Measurement) -> bool:
    """Whether the suite `collectives` can have written it: known names, a finite bandwidth, a possible size."""
    return (
        one.collective in COLLECTIVES
        and one.dtype in DTYPES
        and 0 < one.size_bytes <= limits.SIZE_BYTES
        and math.isfinite(one.bus_bandwidth_bytes_per_second)
        and one.bus_bandwidth_bytes_per_second >= 0
    )


def shortfalls(measured: Iterable[Measurement], thresholds: Sequence[Threshold]) -> list[str]:
    """Return a sentence for each measurement below its threshold."""
    index = ThresholdIndex(thresholds)
    found = ((one, index.highest(one)) for one in measured)
    return [_shortfall(one, wanted) for one, wanted in found if wanted and not _reaches(one, wanted)]


def unmeasured(measured: Iterable[Measurement], thresholds: Sequence[Threshold]) -> list[Threshold]:
    index = ThresholdIndex(thresholds)
    known = {wanted for one in measured for wanted in index.about(one)}
    return [one for one in thresholds if one not in known]


def standings(measured: Iterable[Measurement], thresholds: Sequence[Threshold]) -> list[ThresholdResult]:
    """Return what has a threshold, worst first, then the largest size of each other collective and type.

    Of repeated measurements the slowest counts.
    """
    slowest, index = _slowest(measured), ThresholdIndex(thresholds)
    found = [_result(one, measured=one, threshold=index.highest(one)) for one in slowest]
    judged = [one for one in found if one.threshold]
    missing = [_result(one, measured=None, threshold=one) for one in unmeasured(slowest, thresholds)]
    shown = [one.measured for one in judged]
    others = [_result(one, measured=one, threshold=None) for one in _largest(slowest) if one not in shown]
    return [*sorted([*missing, *judged], key=lambda one: one.share), *others]


class ThresholdIndex:
    """Thresholds by collective and size, for fast lookup: a report can have a hundred thousand measurements."""

    def __init__(self, thresholds: Iterable[Threshold]) -> None:
        self._known: dict[tuple[str, int], list[Threshold]] = {}
        for one in thresholds:
            self._known.setdefault((one.collective, one.size_bytes), []).append(one)

    def about(self, one: Measurement) -> list[Threshold]:
        known = self._known.get((one.collective, one.size_bytes))
        if not known or not is_sound(one):
            return []
        return [wanted for wanted in known if wanted.dtype in ("", one.dtype)]

    def highest(self, one: Measurement) -> Threshold | None:
        return max(self.about(one), key=lambda wanted: wanted.min_bus_bandwidth_bytes_per_second, default=None)


def _reaches(one: Measurement, wanted: Threshold) -> bool:
    return one.bus_bandwidth_bytes_per_second >= wanted.min_bus_bandwidth_bytes_per_second


def _result(
    about: Measurement | Threshold, *, measured: Measurement | None, threshold: Threshold | None
) -> ThresholdResult:
    return ThresholdResult(
        collective=about.collective,
        dtype=about.dtype,
        size_bytes=about.size_bytes,
        measured=measured,
        threshold=threshold,
    )


def _slowest(measured: Iterable[Measurement]) -> list[Measurement]:
    found: dict[tuple[str, str, int], Measurement] = {}
    for one in measured:
        point = one.collective, one.dtype, one.size_bytes
        known = found.setdefault(point, one)
        if one.bus_bandwidth_bytes_per_second < known.bus_bandwidth_bytes_per_second:
            found[point] = one
    return list(found.values())


def _largest(measured: Iterable[Measurement]) -> list[Measurement]:
    """Return the largest of each collective and type, in the order of their first measurements."""
    found: dict[tuple[str, str], Measurement] = {}
    for one in measured:
        known = found.setdefault((one.collective, one.dtype), one)
        if one.size_bytes > known.size_bytes:
            found[one.collective, one.dtype] = one
    return list(found.values())


def _shortfall(one: Measurement, wanted: Threshold) -> str:
    found, limit = show_speeds(one.bus_bandwidth_bytes_per_second, wanted.min_bus_bandwidth_bytes_per_second)
    what = f"{one.collective} of {show_bytes(one.size_bytes)} {one.dtype}"
    return f"{what}: {found} bus bandwidth, below the threshold of {limit}"
