"""Which bandwidths are reported to have changed."""

import dataclasses
import math

import pytest

from disttest_cli.compare import speed
from disttest_cli.compare.differences import compare
from disttest_cli.compare.model import Speed, Trend
from disttest_contract.results.report import Report
from tests.support.builders.compared import a_night, measured
from tests.support.builders.measured import GB, GIB, a_measurement, a_threshold

MIB = 1 << 20


def night(number: int, gb: float, *, size: int = GIB, backend: str = "nccl", limit_gb: int = 0) -> Report:
    thresholds = (a_threshold(limit_gb * GB, size_bytes=size),) if limit_gb else ()
    cases = measured(a_measurement(gb * GB, size_bytes=size))
    return a_night(number, cases, backend=backend, thresholds=thresholds)


def compared_speed(before: Report, after: Report, *earlier: Report) -> Speed:
    [one] = speed.compare_bandwidths(before, after, earlier)
    return one


@pytest.mark.parametrize(
    ("backend", "size", "before", "after", "trend"),
    [
        ("nccl", GIB, 400, 381, Trend.SAME),
        ("nccl", GIB, 400, 379, Trend.WORSE),
        ("nccl", GIB, 400, 419, Trend.SAME),
        ("nccl", GIB, 400, 421, Trend.BETTER),
        ("nccl", 32 * MIB, 400, 379, Trend.WORSE),
        ("nccl", 16 * MIB, 100, 81, Trend.SAME),
        ("nccl", 16 * MIB, 100, 79, Trend.WORSE),
        ("gloo", GIB, 1, 0.51, Trend.SAME),
        ("gloo", GIB, 1, 0.49, Trend.WORSE),
    ],
)
def test_the_band_is_as_wide_as_such_numbers_vary(
    backend: str, size: int, before: float, after: float, trend: Trend
) -> None:
    one = compared_speed(night(0, before, size=size, backend=backend), night(1, after, size=size, backend=backend))
    assert one.trend is trend
    assert one.change == pytest.approx(after / before - 1)


def test_a_lower_bandwidth_is_worse_and_a_missed_threshold_is_said() -> None:
    comparison = compare(night(0, 400), night(1, 350, limit_gb=360))
    assert comparison.worse == ("1 bandwidth lower",)
    [one] = comparison.speeds
    assert (one.threshold, one.is_below) == (360 * GB, True)
    assert not compared_speed(night(0, 400), night(1, 350, limit_gb=350)).is_below


@pytest.mark.parametrize(
    ("nights", "trend"),
    [
        ((400, 401, 399, 400, 400, 370), Trend.WORSE),
        ((400, 300, 420, 350, 400, 370), Trend.SAME),  # it always varies
        ((370, 371, 369, 370, 400, 370), Trend.SAME),  # A was a lucky night
        ((400, 401, 399, 400, 370, 370), Trend.SAME),  # as in A already
        ((370, 371, 400, 370), Trend.WORSE),  # too few reports
    ],
)
def test_earlier_reports_widen_the_band_and_say_what_is_usual(nights: tuple[int, ...], trend: Trend) -> None:
    *earlier, a, b = [night(number, gb) for number, gb in enumerate(nights)]
    one = compared_speed(a, b, *earlier)
    assert one.trend is trend
    assert (one.usual is None) == (len(nights) < 6)


def test_of_what_was_measured_twice_the_slower_counts_and_what_is_no_number_does_not() -> None:
    numbers = [a_measurement(400 * GB), a_measurement(300 * GB), a_measurement(math.nan), a_measurement(0)]
    b = a_night(1, measured(*numbers, a_measurement(math.inf, dtype="bfloat16")))
    one = compared_speed(night(0, 400), b)
    assert one.after == 300 * GB


def test_noise_is_not_learned_from_gangs_of_another_size_nor_from_the_two_themselves() -> None:
    a, b = night(0, 400), night(1, 400)
    others = [a, b, *(dataclasses.replace(night(number, 9), nodes=4) for number in range(2, 8))]
    assert compare(a, b, others).earlier == 0
    assert compare(a, b, [*others, night(9, 400)]).earlier == 1


def test_what_is_no_longer_measured_is_said() -> None:
    both = a_night(0, measured(a_measurement(), a_measurement(dtype="bfloat16")))
    assert compare(both, night(1, 400)).warnings == ("1 bandwidth of A not measured in B.",)
