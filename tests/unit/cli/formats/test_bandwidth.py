"""The rows on bandwidth at the end of a run."""

import dataclasses

import pytest

from disttest_cli.formats import bandwidth
from disttest_cli.formats.table import render_report
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import Report, SuiteResult
from tests.support.builders.measured import ALL_REDUCE, GB, a_measured_case, a_measurement, a_threshold
from tests.unit.cli.formats.test_table import GREEN, REPORT


def measured(*measurements: Measurement) -> Report:
    suite: SuiteResult = dataclasses.replace(GREEN, cases=(a_measured_case(*measurements),))
    return dataclasses.replace(REPORT, suites=(suite,))


def test_a_measurement_is_a_row_in_human_units_and_a_slow_rank_is_named() -> None:
    lines = render_report(measured(ALL_REDUCE)).splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("BANDWIDTH"))
    assert lines[head].split() == ["BANDWIDTH", "TYPE", "SIZE", "TIME", "ALGORITHM", "BUS", "WRONG", "SLOWEST", "RANK"]
    row = " ".join(lines[head + 1].split())
    assert row == "all_reduce float32 1 GiB 4.51 ms 238 GB/s 357 GB/s 0 3 on node-b, 2.0x the median"


def test_a_rank_that_is_as_slow_as_the_others_is_not_named() -> None:
    even = dataclasses.replace(ALL_REDUCE, slowest_rank_seconds=0.0046)
    assert "median" not in render_report(measured(even))


def test_of_each_collective_and_type_the_largest_size_is_shown() -> None:
    small = dataclasses.replace(ALL_REDUCE, size_bytes=1024)
    half = dataclasses.replace(ALL_REDUCE, dtype="bfloat16", size_bytes=1024)
    rows, note = bandwidth.rows(measured(small, ALL_REDUCE, half, small))
    assert [row[:3] for row in rows[1:]] == [("all_reduce", "float32", "1 GiB"), ("all_reduce", "bfloat16", "1 KiB")]
    assert note == "2 more measurements, mostly of smaller sizes, in the report"


def test_the_table_is_short_whatever_was_measured() -> None:
    many = [dataclasses.replace(ALL_REDUCE, collective=f"c{number}") for number in range(60)]
    rows, note = bandwidth.rows(measured(*many))
    assert len(rows) == 1 + bandwidth.MAX_ROWS
    assert note.startswith("20 more")


def test_thresholds_stand_beside_what_was_reached_and_those_missed_on_top() -> None:
    wanted = [a_threshold(), a_threshold(collective="gather"), a_threshold(GB, collective="reduce")]
    report = measured(a_measurement(2 * GB, collective="reduce"), a_measurement(380 * GB), a_measurement(size_bytes=8))
    rows, note = bandwidth.rows(report, wanted)
    assert rows[0][5:8] == ("BUS", "THRESHOLD", "WRONG")
    assert [(row[0], row[1], row[5], row[6]) for row in rows[1:]] == [
        ("gather", "any", "not measured", "missed: 400 GB/s"),
        ("all_reduce", "float32", "380 GB/s", "missed: 400 GB/s"),
        ("reduce", "float32", "2 GB/s", "1 GB/s"),
    ]
    assert note.startswith("1 more measurement,")
    assert "missed: 400 GB/s" in render_report(report, wanted)


def test_without_thresholds_there_is_no_column_for_them() -> None:
    assert "THRESHOLD" not in render_report(measured(ALL_REDUCE))


def test_nothing_measured_shows_nothing() -> None:
    assert "BANDWIDTH" not in render_report(REPORT)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (0.000_25, "250 us"), (4e-7, "0.40 us"), (1.0, "1 s")]
)
def test_seconds_have_three_digits(seconds: float, text: str) -> None:
    rows, _ = bandwidth.rows(measured(dataclasses.replace(ALL_REDUCE, seconds=seconds)))
    assert rows[1][3] == text


@pytest.mark.parametrize(
    ("speed", "text"), [(512.0, "512 B/s"), (5.9e4, "59.0 kB/s"), (1.5e6, "1.50 MB/s"), (4e11, "400 GB/s")]
)
def test_speeds_are_in_powers_of_ten(speed: float, text: str) -> None:
    """As those of networks and of nccl-tests."""
    rows, _ = bandwidth.rows(measured(dataclasses.replace(ALL_REDUCE, bus_bandwidth_bytes_per_second=speed)))
    assert rows[1][5] == text
