"""What a measurement is judged by, and what is no measurement."""

import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

from disttest_contract.results import thresholds
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.thresholds import Threshold
from disttest_contract.text.formatting import show_bytes, show_speeds
from tests.support.builders.measured import GB, GIB, a_measurement, a_threshold

HALF: dict[str, Any] = {"dtype": "bfloat16"}
AT_400 = "all_reduce of 1 GiB float32: 380.0 GB/s bus bandwidth, below the threshold of 400.0 GB/s"

# measurements, thresholds, sentences about what is too slow, names of what nothing was measured about
ROWS: dict[str, tuple[Sequence[Measurement], Sequence[Threshold], Sequence[str], Sequence[str]]] = {
    "nothing at all": ((), (), (), ()),
    "no threshold": ((a_measurement(1),), (), (), ()),
    "reached": ((a_measurement(401 * GB),), (a_threshold(),), (), ()),
    "just reached": ((a_measurement(400 * GB),), (a_threshold(),), (), ()),
    "missed": ((a_measurement(380 * GB),), (a_threshold(),), (AT_400,), ()),
    "nothing measured": ((), (a_threshold(),), (), ("all_reduce of 1 GiB",)),
    "another size": ((a_measurement(size_bytes=8),), (a_threshold(),), (), ("all_reduce of 1 GiB",)),
    "another collective": ((a_measurement(collective="reduce"),), (a_threshold(),), (), ("all_reduce of 1 GiB",)),
    "another type": ((a_measurement(),), (a_threshold(**HALF),), (), ("all_reduce of 1 GiB bfloat16",)),
    "the type that is named": (
        (a_measurement(380 * GB), a_measurement(**HALF)), (a_threshold(**HALF),), (), (),
    ),
    "every type, one too slow": (
        (a_measurement(380 * GB), a_measurement(**HALF)), (a_threshold(),), (AT_400,), (),
    ),
    "the higher one of two counts": (
        (a_measurement(380 * GB),), (a_threshold(dtype="float32"), a_threshold(300 * GB)), (AT_400,), (),
    ),
    "measured twice, once too slow": (
        (a_measurement(500 * GB), a_measurement(380 * GB)), (a_threshold(),), (AT_400,), (),
    ),
    "no type that is known": ((a_measurement(dtype="float8"),), (a_threshold(),), (), ("all_reduce of 1 GiB",)),
    "no number": ((a_measurement(math.nan),), (a_threshold(),), (), ("all_reduce of 1 GiB",)),
    "without end": ((a_measurement(math.inf),), (a_threshold(),), (), ("all_reduce of 1 GiB",)),
    "below nothing": ((a_measurement(-1.0),), (a_threshold(),), (), ("all_reduce of 1 GiB",)),
}  # fmt: skip  # a row reads as a sentence


@pytest.mark.parametrize(("measured", "wanted", "short", "missing"), ROWS.values(), ids=ROWS.keys())
def test_each_measurement_is_judged_by_its_threshold_and_silence_is_noticed(
    measured: Sequence[Measurement], wanted: Sequence[Threshold], short: Sequence[str], missing: Sequence[str]
) -> None:
    assert thresholds.shortfalls(measured, wanted) == list(short)
    assert [one.name for one in thresholds.unmeasured(measured, wanted)] == list(missing)
    stand = thresholds.standings([one for one in measured if thresholds.is_sound(one)], wanted)
    assert all(one.is_met for one in stand) is not bool(short or missing)


def test_what_has_a_threshold_stands_first_and_the_worst_on_top() -> None:
    measured = [
        a_measurement(size_bytes=8),
        a_measurement(700 * GB, collective="reduce"),
        a_measurement(390 * GB),
        a_measurement(300 * GB, **HALF),
        a_measurement(collective="gather", size_bytes=8),
        a_measurement(collective="gather", size_bytes=16),
    ]
    wanted = [a_threshold(600 * GB, collective="reduce"), a_threshold(), a_threshold(collective="scatter")]
    stand = thresholds.standings(measured, wanted)
    rows = [(one.collective, one.dtype, one.size_bytes, one.threshold is not None, one.is_met) for one in stand]
    assert rows == [
        ("scatter", "", GIB, True, False),
        ("all_reduce", "bfloat16", GIB, True, False),
        ("all_reduce", "float32", GIB, True, False),
        ("reduce", "float32", GIB, True, True),
        ("gather", "float32", 16, False, True),
    ], "the largest all_reduce is listed already"


def test_of_what_was_measured_twice_the_slowest_stands_there() -> None:
    fast, slow = a_measurement(500 * GB), a_measurement(380 * GB)
    for measured in ([fast, slow], [slow, fast]):
        (one,) = thresholds.standings(measured, [a_threshold()])
        assert one.measured is slow


def test_a_report_full_of_measurements_is_judged_in_no_time() -> None:
    """Test code can forge as many as a report may hold, and the operator has more to do."""
    many = [a_measurement(size_bytes=size) for size in range(1, 20_001)]
    wanted = [a_threshold(size_bytes=size) for size in range(1, 41)]
    started = time.process_time()
    assert thresholds.unmeasured(many, wanted) == []
    assert thresholds.shortfalls(many, wanted) == []
    assert len(thresholds.standings(many, wanted)) == 41
    assert time.process_time() - started < 1.5


def test_the_case_of_a_threshold_names_collective_size_and_type() -> None:
    assert a_threshold().case_id == "thresholds::all_reduce[1073741824]"
    assert a_threshold(**HALF).case_id == "thresholds::all_reduce[1073741824-bfloat16]"


@pytest.mark.parametrize(
    ("count", "text"),
    [(GIB, "1 GiB"), (3 << 20, "3 MiB"), (1536, "1536 B"), (4096, "4 KiB"), (0, "0 B"), (1025 << 20, "1025 MiB")],
)
def test_bytes_are_shown_in_the_largest_exact_unit(count: int, text: str) -> None:
    assert show_bytes(count) == text


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (380e9, 400e9, ("380.0 GB/s", "400.0 GB/s")),
        (399.99e9, 400e9, ("399.990 GB/s", "400.000 GB/s")),
        (399.99999e9, 400e9, ("399.999990 GB/s", "400.000000 GB/s")),
        (5e6, 1e9, ("5.0 MB/s", "1.0 GB/s")),
        (0.0, 2e3, ("0.0 B/s", "2.0 kB/s")),
        (1e9, 1e9, ("1.000000 GB/s", "1.000000 GB/s")),
    ],
)
def test_two_speeds_can_be_told_apart(one: float, other: float, shown: tuple[str, str]) -> None:
    assert show_speeds(one, other) == shown
