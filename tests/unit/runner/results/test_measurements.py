"""From the numbers of ranks to a line of the report."""

import dataclasses
import json
from typing import Any

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult
from disttest_runner.results import measurements
from disttest_runner.results.measurements import Sample

GIB = 1 << 30
SAMPLE = Sample(
    collective="all_reduce",
    dtype="bfloat16",
    size_bytes=GIB,
    iterations=20,
    bus_factor=1.75,
    seconds=0.004,
    wrong_elements=0,
)


def sample(**changes: Any) -> Sample:
    return dataclasses.replace(SAMPLE, **changes)


def over_the_wire(by_rank: dict[int, list[Sample]]) -> list[dict[str, Any]]:
    """As two agents of two ranks would pass it on."""
    lists = {rank: [one.to_wire() for one in samples] for rank, samples in by_rank.items()}
    nodes = [{rank: lists[rank] for rank in node if rank in lists} for node in ((0, 1), (2, 3))]
    answers: list[dict[str, Any]] = json.loads(json.dumps([{"op": "done", "measured": node} for node in nodes]))
    return answers


def test_the_median_over_ranks_counts_and_the_slowest_is_named() -> None:
    by_rank = {rank: [sample(seconds=seconds)] for rank, seconds in enumerate((0.004, 0.005, 0.002, 0.016))}
    (merged,) = measurements.merge(measurements.gather(over_the_wire(by_rank)))
    assert merged == Measurement(
        collective="all_reduce",
        dtype="bfloat16",
        size_bytes=GIB,
        ranks=4,
        iterations=20,
        seconds=0.0045,
        fastest_rank_seconds=0.002,
        slowest_rank_seconds=0.016,
        slowest_rank=3,
        alg_bytes_per_second=238609000000.0,
        bus_bandwidth_bytes_per_second=417566000000.0,
        wrong_elements=0,
    )
    assert merged.slowdown == pytest.approx(16 / 4.5)


def test_what_was_measured_apart_stays_apart_in_the_order_of_the_first_rank() -> None:
    mine = [sample(size_bytes=64), sample(size_bytes=8), sample(dtype="float32", size_bytes=8), sample(collective="x")]
    merged = measurements.merge({1: mine[::-1], 0: mine})
    assert [(one.collective, one.dtype, one.size_bytes) for one in merged] == [
        ("all_reduce", "bfloat16", 64),
        ("all_reduce", "bfloat16", 8),
        ("all_reduce", "float32", 8),
        ("x", "bfloat16", GIB),
    ]


def test_wrong_elements_of_all_ranks_add_up_and_the_fewest_iterations_are_reported() -> None:
    (merged,) = measurements.merge({0: [sample(wrong_elements=2, iterations=5)], 1: [sample(wrong_elements=3)]})
    assert (merged.wrong_elements, merged.iterations) == (5, 5)


def test_a_rank_without_a_measurement_is_not_counted() -> None:
    (merged,) = measurements.merge({0: [sample()], 1: [], 7: [sample(seconds=0.008)]})
    assert (merged.ranks, merged.slowest_rank) == (2, 7)


def test_answers_without_measurements_give_none() -> None:
    assert measurements.gather([{"op": "done", "all": ["passed", ""]}, {"op": "done"}]) == {}
    assert measurements.merge({}) == ()


WIRE = SAMPLE.to_wire()


@pytest.mark.parametrize(
    "words",
    [
        "text",
        [WIRE[:-1]],
        [{"collective": "x"}],
        [["", *WIRE[1:]]],
        [["x" * 65, *WIRE[1:]]],
        [[*WIRE[:2], -1, *WIRE[3:]]],
        [[*WIRE[:2], True, *WIRE[3:]]],
        [[*WIRE[:2], 1.5, *WIRE[3:]]],
        [[*WIRE[:5], 0, WIRE[6]]],
        [[*WIRE[:5], "1", WIRE[6]]],
        [[*WIRE[:5], float("nan"), WIRE[6]]],
        [[*WIRE[:5], float("inf"), WIRE[6]]],
        [[*WIRE[:4], -1, *WIRE[5:]]],
        [WIRE] * (limits.MEASUREMENTS + 1),
    ],
)
def test_what_is_no_list_of_measurements_is_refused(words: object) -> None:
    """A rank's words are those of test code."""
    with pytest.raises(ValueError, match="measurement"):
        measurements.read(words)


def test_measurements_come_back_from_the_report_and_cost_nothing_where_there_are_none() -> None:
    bare = CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=0.5)
    assert "measurements" not in bare.to_json()
    case = dataclasses.replace(bare, measurements=measurements.merge({0: [sample()], 1: [sample(dtype="float32")]}))
    data = json.loads(json.dumps(case.to_json()))
    data["measurements"][0]["weather"] = "fine"
    assert CaseResult.from_json(data) == case
