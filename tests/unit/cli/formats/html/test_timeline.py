import dataclasses
import math

import pytest

from disttest_cli.formats.html import timeline
from disttest_cli.formats.html.timeline import Scale
from disttest_cli.formats.subject import Subject
from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult
from tests.support.reports.hostile import a_hostile_subject
from tests.support.reports.reports import STATUS, a_good_night, a_night, a_suite, many

HUNDRED = Scale(100.0)


def case(at: float | None, seconds: float = 1.0, outcome: Outcome = Outcome.PASSED) -> CaseResult:
    return CaseResult(id=f"t.py::test[{at}]", outcome=outcome, seconds=seconds, at=at)


def kinds(*cases: CaseResult) -> list[tuple[str, int]]:
    lane = timeline.lane(a_suite("s", cases), 0.0, HUNDRED)
    return [(bar.kind, bar.cases) for bar in lane.bars]


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([case(0), case(1), case(2)], [("good", 3)]),
        ([case(0), case(1.2), case(9)], [("good", 2), ("good", 1)]),
        ([case(2), case(0), case(1)], [("good", 3)]),
        ([case(0), case(1, outcome=Outcome.FAILED), case(2)], [("good", 1), ("good", 1), ("failed", 1)]),
        ([case(0), case(1, seconds=5), case(6)], [("good", 1), ("good", 1), ("slow", 1)]),
        ([case(0, outcome=Outcome.SKIPPED), case(1, outcome=Outcome.XFAILED)], [("good", 2)]),
        ([case(None), case(math.nan), case(0)], [("good", 1)]),
    ],
    ids=["neighbours", "a gap", "out of order", "a failure", "a slow one", "skipped is no failure", "without a time"],
)
def test_good_neighbours_are_one_bar(cases: list[CaseResult], expected: list[tuple[str, int]]) -> None:
    assert kinds(*cases) == expected


def test_every_timed_case_is_in_one_bar_however_many_fail() -> None:
    failed = [case(float(at) / 20, 0.04, Outcome.FAILED) for at in range(2000)]
    bars = timeline.lane(a_suite("s", failed), 0.0, HUNDRED).bars
    assert sum(bar.cases for bar in bars) == 2000
    assert len(bars) <= 2 * timeline.BARS
    assert {bar.kind for bar in bars} == {"failed"}, "failures that are merged stay red"


@pytest.mark.parametrize(("begin", "end"), [(0, 100), (99.99, 100), (-5, 1), (200, 300), (50, 50)])
def test_bars_can_be_seen_and_stay_on_their_lane(begin: float, end: float) -> None:
    bar = HUNDRED.bar(begin, end, "good", "")
    assert bar.width >= timeline.NARROWEST
    assert bar.x >= 0
    assert bar.x + bar.width <= 100.001


@pytest.mark.parametrize("whole", [0.001, 0.7, 8, 59, 60, 772, 3576, 90_000, 4e7])
def test_ticks_are_few_and_within(whole: float) -> None:
    marks = timeline.ticks(whole)
    assert 1 <= len(marks) <= timeline.TICKS + 1
    assert all(0 <= x <= 100.001 for x, _ in marks)


def test_the_gang_begins_when_the_steps_before_it_have_ended() -> None:
    found = timeline.timeline(Subject(report=a_night(), status=STATUS))
    assert [lane.name for lane in found.lanes][:3] == ["run", "gang", "collectives"]
    run, gang = found.lanes[0].bars, found.lanes[1].bars
    pulled = next(bar for bar in run if bar.kind == "pulled")
    assert gang[0].x == pytest.approx(pulled.x + pulled.width, abs=0.1)


def test_a_report_from_a_file_has_the_clock_of_the_gang_alone() -> None:
    found = timeline.timeline(Subject(report=a_good_night()))
    assert found.lanes[0].name == "gang"
    assert found.lanes[0].bars[0].x == 0
    assert "cases" in found.lanes[0].summary


def test_five_thousand_cases_take_few_bars() -> None:
    found = timeline.timeline(Subject(report=many(5000)))
    assert sum(len(lane.bars) for lane in found.lanes) < 600
    assert sum(bar.cases for lane in found.lanes for bar in lane.bars) == 5000


def test_times_that_cannot_be_draw_nothing() -> None:
    found = timeline.timeline(a_hostile_subject())
    assert found.untimed == 2
    report = dataclasses.replace(a_night(), joined=None, first_case=math.nan, last_case=-1.0)
    assert [bar.title.partition(":")[0] for bar in timeline.timeline(Subject(report=report)).lanes[0].bars] == [
        "report"
    ]
