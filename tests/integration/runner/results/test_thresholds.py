"""Thresholds in a real gang: what is too slow fails, is measured again, and silence is failure."""

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from disttest_contract.results.thresholds import Threshold
from tests.support.gangs.gang import AgentGang, case, make_plan, suite_of

IMPOSSIBLE = 10**15
OWN = """
from disttest_runner.results.measurements import Sample

def test_own(gang, measure):
    measure(
        Sample(
            collective="all_gather", dtype="int64", size_bytes=3, iterations=1, bus_factor=1.0, seconds=0.5,
            wrong_elements=0,
        )
    )
"""


def wanted(collective: str, size_bytes: int, speed: int, dtype: str = "") -> Threshold:
    return Threshold(
        collective=collective, size_bytes=size_bytes, min_bus_bandwidth_bytes_per_second=speed, dtype=dtype
    )


THRESHOLDS = (
    wanted("broadcast", 8, 1),
    wanted("broadcast", 4096, 1),
    wanted("broadcast", 4096, IMPOSSIBLE, "int32"),
    wanted("broadcast", 1 << 30, 1),
    wanted("all_gather", 3, 6),
)
SUITE = SuitePlan(
    name="fabric",
    builtin="collectives",
    select="test_bandwidth and broadcast",
    env=(("COLLECTIVES_SIZES", "8,4K"), ("COLLECTIVES_DTYPES", "float32,int32"), ("COLLECTIVES_ITERATIONS", "3")),
)


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, str]:
    """One for all tests: it takes seconds."""
    folder = tmp_path_factory.mktemp("gang")
    own = suite_of(folder / "mine", OWN)
    gang = AgentGang(make_plan(SUITE, own, nodes=1, flaky_retries=1, thresholds=THRESHOLDS), folder)
    return gang.run(), gang.text


def test_a_case_below_its_threshold_fails_was_measured_twice_and_says_by_how_much(gang: tuple[Report, str]) -> None:
    slow = case(gang[0], "test_bandwidth[broadcast-int32-4KiB]")
    assert (slow.outcome, [one.outcome for one in slow.earlier]) == (Outcome.FAILED, [Outcome.FAILED])
    for message in (slow.message, slow.earlier[0].message):
        assert message.startswith("broadcast of 4 KiB int32: ")
        assert message.endswith(" bus bandwidth, below the threshold of 1000000.0 GB/s")
    assert len(slow.measurements) == 1


def test_cases_that_are_fast_enough_pass(gang: tuple[Report, str]) -> None:
    for name in ("float32-8B", "int32-8B", "float32-4KiB"):
        assert case(gang[0], f"test_bandwidth[broadcast-{name}]").outcome is Outcome.PASSED


def test_being_slow_costs_no_new_ranks_but_for_the_other_try(gang: tuple[Report, str]) -> None:
    assert gang[0].generations == 3, "one for each suite, and one to try again"


def test_a_threshold_without_a_measurement_is_a_failed_case_at_the_end_of_the_suite(gang: tuple[Report, str]) -> None:
    report, text = gang
    fabric, mine = report.suites
    silent = fabric.cases[-1]
    assert (silent.id, silent.outcome) == ("thresholds::broadcast[1073741824]", Outcome.FAILED)
    assert silent.message.startswith("no case measured broadcast of 1 GiB (measured: 8 B float32, ")
    assert "Add 1G to COLLECTIVES_SIZES (env of the suite)" in silent.message
    assert (fabric.verdict, len(fabric.cases)) == (Verdict.TESTS_FAILED, 5)
    assert "[5/5] failed     0.00 s  fabric: thresholds::broadcast[1073741824]" in text
    assert mine.verdict is Verdict.PASSED
    assert [one.id for _, one in report.failures] == [fabric.cases[3].id, silent.id], "the suite of one's own counts"


def test_the_run_is_red_for_its_cases(gang: tuple[Report, str]) -> None:
    report = gang[0]
    assert (report.verdict, report.reason) == (Verdict.TESTS_FAILED, Reason.CASES_FAILED)
    assert "2 of 5 cases failed" in report.message
    assert report.counts.total == 6
