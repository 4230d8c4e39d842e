"""Bandwidth from the ranks to the report: what was asked for is timed, a slow rank is named, wrong elements count."""

from pathlib import Path

import pytest

from disttest_cli.formats.table import render_report
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from tests.support.gangs.gang import AgentGang, make_plan, only_suite
from tests.support.gangs.sabotage import Sabotage
from tests.support.gangs.sabotaged import can_sabotage, sabotage_folder

BANDWIDTH = "from disttest_runner.suites.collectives.bandwidth import *\n"
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
LINKS = ("send_recv", "send_recv_pair")


def collectives(select: str = "test_bandwidth", **environ: str) -> SuitePlan:
    env = tuple((f"COLLECTIVES_{name}", value) for name, value in environ.items())
    return SuitePlan(name="collectives", builtin="collectives", select=select, env=env)


def in_folder(folder: Path, conftest: str, select: str) -> SuitePlan:
    folder.mkdir()
    (folder / "test_bandwidth.py").write_text(BANDWIDTH)
    (folder / "conftest.py").write_text(conftest)
    env = (("COLLECTIVES_SIZES", "4K"), ("COLLECTIVES_ITERATIONS", "5"))
    return SuitePlan(name="mine", directory=str(folder), select=select, env=env)


def test_what_the_environment_asks_for_is_timed_by_all_ranks(tmp_path: Path) -> None:
    suite = collectives(SIZES="8,4K", DTYPES="float64,int32", ITERATIONS="3")
    report = AgentGang(make_plan(suite, case_seconds=60), tmp_path).run()
    assert report.verdict is Verdict.PASSED, report.message
    measured = [one for case in only_suite(report).cases for one in case.measurements]
    assert {(one.collective, one.dtype, one.size_bytes) for one in measured} == {
        (name, dtype, size) for name in (*COLLECTIVES, *LINKS) for dtype in ("float64", "int32") for size in (8, 4096)
    }
    assert len(measured) == 40
    for one in measured:
        assert (one.ranks, one.iterations, one.wrong_elements) == (4, 3, 0)
        assert 0 < one.fastest_rank_seconds <= one.seconds <= one.slowest_rank_seconds
        assert one.alg_bytes_per_second > 0
    factors = {one.collective: one.bus_bandwidth_bytes_per_second / one.alg_bytes_per_second for one in measured}
    assert {name: round(factor, 4) for name, factor in factors.items()} == {
        **dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"), 0.75),
        **dict.fromkeys(("broadcast", "reduce", *LINKS), 1.0),
        "all_reduce": 1.5,
    }
    assert "all_reduce" in render_report(report).split("BANDWIDTH")[1]


def test_a_wrong_value_ends_the_suite_with_what_to_write(tmp_path: Path) -> None:
    report = AgentGang(make_plan(collectives(SIZES="1X"), nodes=1), tmp_path).run()
    suite = only_suite(report)
    assert (suite.verdict, suite.reason) == (Verdict.ERRORED, Reason.COLLECTION_FAILED)
    assert "COLLECTIVES_SIZES has the invalid size '1X'. Write bytes from 1 to 64G" in suite.message
    assert "Traceback" not in suite.message


def test_what_does_not_fit_into_memory_is_not_run_and_has_that_message(tmp_path: Path) -> None:
    suite = collectives(select="all_gather and GiB or all_gather and 4KiB", SIZES="4K,64G")
    report = AgentGang(make_plan(suite, nodes=1), tmp_path).run()
    small, large = only_suite(report).cases
    assert small.outcome is Outcome.PASSED
    assert large.outcome is Outcome.NOT_RUN
    assert "all_gather needs 96.0 GiB for the buffers of a rank" in large.message


SLOW = """
import os, time
import torch.distributed as dist

exchange = dist.batch_isend_irecv

def slowly(operations):
    if os.environ["RANK"] == "2":
        time.sleep(0.1)
    return exchange(operations)

dist.batch_isend_irecv = slowly
"""


@pytest.mark.soak
def test_a_slow_rank_is_named_and_its_neighbours_are_not(tmp_path: Path) -> None:
    """Ranks 1 and 3 wait for it in one of their pairs each, and are fast in the other."""
    suite = in_folder(tmp_path / "suite", SLOW, select="pairs")
    (case,) = only_suite(run(suite, tmp_path)).cases
    assert case.outcome is Outcome.PASSED, case.message
    (measured,) = case.measurements
    assert measured.slowest_rank == 2
    assert measured.slowest_rank_seconds >= 0.1
    assert measured.slowdown > 1.5


@can_sabotage
def test_wrong_elements_of_the_timed_collectives_fail_the_case_and_are_counted(tmp_path: Path) -> None:
    suite = in_folder(tmp_path / "suite", "", select="all_reduce or broadcast")
    sabotage_folder(tmp_path / "suite", Sabotage.SCALED)
    found = {case.measurements[0].collective: case for case in only_suite(run(suite, tmp_path)).cases}
    assert {case.outcome for case in found.values()} == {Outcome.FAILED}, [case.message for case in found.values()]
    assert "1024 of 1024 elements are wrong; the first at 0: 28 instead of 14" in found["all_reduce"].message
    assert found["all_reduce"].measurements[0].wrong_elements == 4 * 1024
    assert found["broadcast"].measurements[0].wrong_elements == 3 * 1024  # the root has what it sent


def run(suite: SuitePlan, folder: Path) -> Report:
    return AgentGang(make_plan(suite, case_seconds=60), folder).run()
