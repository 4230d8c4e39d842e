import itertools
import math

import pytest

from disttest_cli.formats.html import plots
from disttest_cli.formats.html.plots import Axis
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.thresholds import Threshold
from tests.support.builders.measured import GB, GIB, a_measured_case, a_measurement, a_threshold
from tests.support.reports.hostile import a_hostile_subject
from tests.support.reports.reports import a_night, a_report, a_suite


def of(measured: list[Measurement], *thresholds: Threshold) -> plots.Bandwidth:
    return plots.bandwidth(a_report(a_suite("s", [a_measured_case(*measured)]), thresholds=thresholds))


def test_an_axis_is_logarithmic_in_either_direction() -> None:
    right, up = Axis(low=1, high=1000, begin=60, end=360), Axis(low=1, high=100, begin=200, end=0)
    assert [right.at(value) for value in (1, 10, 100, 1000)] == [60, 160, 260, 360]
    assert [up.at(value) for value in (1, 10, 100)] == [200, 100, 0]


def test_each_collective_has_a_chart_and_each_type_a_line() -> None:
    found = plots.bandwidth(a_night())
    assert len(found.charts) == 10
    assert found.charts[0].collective == "all_to_all", "what missed a threshold comes first"
    for chart in found.charts:
        assert [line.dtype for line in chart.lines] == ["float32", "bfloat16"]
        assert len(chart.rows) == 20, "the table has every point"
        for line in chart.lines:
            xs = [x for x, _, _ in line.points]
            assert len(xs) == 10
            assert all(one < other for one, other in itertools.pairwise(xs))


def test_all_that_is_drawn_is_within_the_chart() -> None:
    for chart in plots.bandwidth(a_night()).charts:
        places = [(x, y) for line in chart.lines for x, y, _ in line.points]
        places += [(mark.x, mark.y) for mark in chart.marks]
        assert all(plots.LEFT <= x <= plots.WIDTH - plots.RIGHT for x, _ in places)
        assert all(plots.TOP <= y <= plots.HEIGHT - plots.BOTTOM for _, y in places)
        assert all(plots.LEFT <= x <= plots.WIDTH for x, _ in chart.x_ticks)


@pytest.mark.parametrize(
    ("bus", "is_met", "words"),
    [
        (400 * GB, True, "threshold 400.0 GB/s at 1 GiB: met"),
        (380 * GB, False, "threshold 400.0 GB/s at 1 GiB: missed, float32 reached 380.0 GB/s"),
    ],
)
def test_a_threshold_is_marked_and_a_missed_one_named(bus: float, is_met: bool, words: str) -> None:  # noqa: FBT001 - a row
    chart = of([a_measurement(bus)], a_threshold()).charts[0]
    assert [(mark.is_met, mark.words) for mark in chart.marks] == [(is_met, words)]
    assert bool(chart.missed) is not is_met


def test_a_threshold_about_which_nothing_was_measured_is_missed() -> None:
    found = of([a_measurement()], a_threshold(size_bytes=8 * GIB))
    assert [one.is_met for one in found.judged] == [False]
    assert found.charts[0].missed[0].words.endswith("missed, not measured")


def test_of_what_was_measured_twice_the_slowest_is_drawn() -> None:
    line = of([a_measurement(300 * GB), a_measurement(200 * GB), a_measurement(250 * GB)]).charts[0].lines[0]
    assert [words for _, _, words in line.points] == ["1 GiB float32: 200.0 GB/s"]


def test_a_single_point_makes_a_chart() -> None:
    chart = of([a_measurement(size_bytes=1000)]).charts[0]
    assert len(chart.lines[0].points) == 1
    assert chart.x_ticks
    assert chart.y_ticks


@pytest.mark.parametrize("bus", [math.nan, math.inf, 0.0, -1.0])
def test_what_cannot_be_drawn_is_left_out(bus: float) -> None:
    assert of([a_measurement(bus)]).charts == ()


def test_names_of_ones_own_are_drawn_and_their_number_has_an_end() -> None:
    found = of([a_measurement(collective=f"mine-{number}") for number in range(30)])
    assert (len(found.charts), found.left_out) == (plots.CHARTS, 30 - plots.CHARTS)
    assert plots.bandwidth(a_hostile_subject().report).charts == ()
