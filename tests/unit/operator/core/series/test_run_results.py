"""What a report measured, and which nodes were tested: exact, bounded, and escaped whatever a report contains."""

import math
from dataclasses import replace

import pytest

from disttest_contract.outcomes import Outcome
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import CaseResult, Earlier
from disttest_operator.core.series import history, run_results
from disttest_operator.core.series.ledger import observe
from tests.support.builders.measured import GB, a_measurement, a_threshold
from tests.support.builders.nights import a_case
from tests.support.builders.runs import a_report_of
from tests.support.builders.series import Nights, time_of


def points(*measurements: Measurement) -> run_results.Points:
    return run_results.points(a_report_of(a_case("t::a", measurements=measurements)))


def test_a_point_measured_twice_is_as_fast_as_its_slower_half_and_as_wrong_as_both() -> None:
    found = points(
        a_measurement(bus=4e11, wrong_elements=1),
        a_measurement(bus=3e11, wrong_elements=2),
        a_measurement(size_bytes=4),
    )
    assert [(row["sizeBytes"], row["busBandwidthBytesPerSecond"], row["wrongElements"]) for row in found.rows] == [
        (4, 4e11, 0),
        (1 << 30, 3e11, 3),
    ]


def test_more_points_than_fit_are_cut_and_counted() -> None:
    found = points(*(a_measurement(size_bytes=size + 1) for size in range(70)))
    assert (len(found.rows), found.cut) == (64, 6)


def test_points_with_a_threshold_are_not_cut_before_the_others_and_name_it() -> None:
    many = [a_measurement(size_bytes=size + 1) for size in range(70)]
    wanted = [a_threshold(size_bytes=70), a_threshold(5, size_bytes=70, dtype="int64"), a_threshold(size_bytes=71)]
    found = run_results.points(a_report_of(a_case("t::a", measurements=tuple(many))), wanted)
    assert (found.rows[-1]["sizeBytes"], found.rows[-1]["thresholdBytesPerSecond"]) == (70, 400 * GB)
    assert [row["sizeBytes"] for row in found.rows] == [*range(1, 64), 70]
    assert sum("thresholdBytesPerSecond" in row for row in found.rows) == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"collective": "all_reduce\n# TYPE x"},
        {"collective": "x" * 33},
        {"collective": ""},
        {"dtype": 'float32"'},
        {"size_bytes": 0},
        {"size_bytes": 1 << 60},
        {"bus_bandwidth_bytes_per_second": math.inf},
        {"bus_bandwidth_bytes_per_second": math.nan},
        {"seconds": -1.0},
        {"slowest_rank_seconds": 1e300},
        {"wrong_elements": -1},
        {"wrong_elements": 10**30},
    ],
    ids=str,
)
def test_what_is_no_measurement_is_left_out(forged: dict[str, object]) -> None:
    assert points(replace(a_measurement(), **forged)) == run_results.Points()  # type: ignore[arg-type]  # one field each


def test_a_hang_counts_although_the_case_passed_when_it_was_tried_again() -> None:
    hung = CaseResult(id="t::a", outcome=Outcome.HUNG, seconds=1)
    flaky = CaseResult(
        id="t::b", outcome=Outcome.PASSED, seconds=1, earlier=(Earlier(outcome=Outcome.HUNG, seconds=9),)
    )
    assert run_results.hangs(a_report_of(hung, flaky, a_case("t::c"))) == {"collectives": 2}


def test_versions_and_products_that_do_not_look_like_one_are_odd() -> None:
    node = NodeFacts(gpus=("NVIDIA H100 80GB HBM3",) * 8)
    report = a_report_of(a_case("t::a"), backend="nccl", versions={"torch": "2.9.0+cu130", "nccl": "2\n7"})
    assert run_results.environment(replace(report, preflight=(node, replace(node, gpus=("NVIDIA A100",))))) == {
        "backend": "nccl",
        "torchVersion": "2.9.0+cu130",
        "ncclVersion": "odd",
        "gpuProduct": "NVIDIA H100 80GB HBM3",
        "transport": "unknown",
        "network": "",
    }
    assert run_results.environment(replace(report, versions={}))["ncclVersion"] == ""


def test_a_node_keeps_the_time_of_the_last_run_with_results_on_it() -> None:
    series = Nights()
    series.report(a_report_of(a_case("t::a")), nodes=("node0", "node1"))
    series.report(a_report_of(a_case("t::a")), nodes=("node1", "node2"))
    series.report(None, nodes=("node0", "node3"))
    assert series.ledger["nodes"] == [
        {"name": "node1", "time": time_of(1)},
        {"name": "node2", "time": time_of(1)},
        {"name": "node0", "time": time_of(0)},
    ]


def test_of_too_many_nodes_those_that_were_tested_last_stay() -> None:
    ledger = history.fold_coverage(
        {}, frozenset(f"old{number:03}" for number in range(500)), time="2026-01-01T00:00:00Z"
    )
    ledger = history.fold_coverage(
        ledger, frozenset(f"new{number:03}" for number in range(20)), time="2026-01-02T00:00:00Z"
    )
    names = {row["name"] for row in ledger["nodes"]}
    assert (len(names), ledger["nodesOmitted"]) == (512, 8)
    assert {f"new{number:03}" for number in range(20)} <= names


def test_only_confirmed_nodes_count_as_failures() -> None:
    suspects = [
        {"name": "node1", "reason": "NodeLost", "confirmed": True},
        {"name": "node2", "reason": "NodeLost", "confirmed": False},
    ]
    rows = history.add_failures(history.add_failures([], suspects), suspects)
    assert rows == [{"node": "node1", "reason": "NodeLost", "count": 2}]


def test_values_beyond_the_bound_of_a_histogram_share_one_row() -> None:
    rows: list[dict[str, object]] = []
    for number in range(12):
        rows = observe(rows, "queue", {f"q{number}": 45.0}, most=4)
    assert [(row["queue"], row["count"]) for row in rows] == [("q0", 1), ("q1", 1), ("q2", 1), ("other", 9)]
    assert rows[0]["buckets"][:3] == [  # type: ignore[index]  # a list
        {"le": 10, "count": 0},
        {"le": 30, "count": 0},
        {"le": 60, "count": 1},
    ]


def test_the_wait_for_nodes_is_counted_by_queue() -> None:
    series = Nights()
    series.run(a_case("t::a"), stepSeconds={"queued": 20.0, "scheduled": 2.5, "ran": 60.0})
    series.run(a_case("t::a"), stepSeconds={"ran": 60.0})
    [wait] = series.ledger["totals"]["waits"]
    assert (wait["queue"], wait["sum"], wait["count"]) == ("", 22.5, 1)
    assert {row["step"]: row["count"] for row in series.ledger["totals"]["steps"]} == {
        "queued": 1,
        "scheduled": 1,
        "ran": 2,
    }
