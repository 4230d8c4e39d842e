"""A flight recorder's dump becomes a short trace, whatever the backend, and travels as a few characters."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from disttest_runner.diagnosis import flight_recorder
from disttest_runner.diagnosis.flight_recorder import BEFORE, ENTRIES, MAX_GROUPS, Trace

CASE = 1_000  # the start of the case, in nanoseconds


def entry(
    number: int, op: str = "gloo:all_reduce", *, done: bool = True, at: int = CASE, **changes: Any
) -> dict[str, Any]:
    return {
        "profiling_name": op,
        "process_group": ["0", "default_pg"],
        "pg_id": 0,
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "retired": done,
        "is_p2p": False,
        "time_created_ns": at,
        **changes,
    }


def read(*entries: Mapping[str, Any], members: Mapping[str, tuple[int, ...]] | None = None) -> Trace:
    return flight_recorder.read([{"entries": list(entries)}], case_started_ns=CASE, members=members or {})


def test_a_retired_collective_of_gloo_has_ended_although_its_state_says_scheduled() -> None:
    (group,) = read(entry(1), entry(2, done=False)).groups
    assert group.pending is not None
    assert (group.pending.number, group.pending.op, group.pending.what) == (2, "all_reduce", "float32[4]")
    assert group.last == 2


def test_a_completed_collective_of_nccl_has_ended_although_it_is_not_retired() -> None:
    (group,) = read(entry(1, "nccl:all_reduce", done=False, state="completed")).groups
    assert group.pending is None
    (group,) = read(entry(1, "nccl:all_reduce", done=False, state="started")).groups
    assert group.pending is not None


def test_the_members_come_from_what_torch_knows_of_its_groups() -> None:
    (group,) = read(entry(1), members={"0": (0, 1, 2)}).groups
    assert group.members == (0, 1, 2)
    assert read(entry(1)).groups[0].members == ()


def test_a_group_that_was_not_used_in_this_case_waits_for_nobody() -> None:
    (group,) = read(entry(7, done=False, at=CASE - 1)).groups
    assert (group.life, group.pending, group.last) == (BEFORE, None, 7)


def test_groups_of_one_name_that_followed_each_other_stay_separate() -> None:
    """A case destroys the default group and makes a new one: its numbers begin at 1 again."""
    trace = read(entry(9, at=CASE - 1, pg_id=0), entry(1, pg_id=1), entry(1, done=False, pg_id=2))
    assert sorted((group.life, group.last) for group in trace.groups) == [(0, 1), (1, 1)]
    assert trace.groups[0].life == 1, "the one that waits comes first"


def test_entries_of_earlier_cases_belong_to_a_group_that_lives_on() -> None:
    (group,) = read(entry(3, at=CASE - 1), entry(4)).groups
    assert (group.life, [one.number for one in group.entries]) == (0, [3, 4])


def test_two_backends_of_one_group_are_counted_apart() -> None:
    trace = flight_recorder.read(
        [{"entries": [entry(5, "gloo:barrier")]}, {"entries": [entry(2, "nccl:broadcast")]}],
        case_started_ns=CASE,
        members={},
    )
    assert {group.backend: group.last for group in trace.groups} == {"gloo": 5, "nccl": 2}


def test_what_is_far_from_the_first_that_waits_is_dropped() -> None:
    entries = [entry(number, done=number < 50) for number in range(1, 101)]
    (group,) = read(*entries).groups
    assert [one.number for one in group.entries] == list(range(46, 46 + ENTRIES))
    assert group.last == 100


def test_point_to_point_operations_do_not_count_as_collectives() -> None:
    send = entry(0, "nccl:send 0->1", done=False, is_p2p=True, p2p_seq_id=3)
    (group,) = read(entry(1, "nccl:all_reduce"), send).groups
    assert (group.pending, group.last) == (None, 1)
    assert group.pending_p2p is not None
    assert group.pending_p2p.op == "send 0->1"


def test_the_groups_in_which_a_rank_waits_are_kept_of_many() -> None:
    names = [str(number) for number in range(3 * MAX_GROUPS)]
    entries = [entry(1, pg_id=n, process_group=[name, ""], done=name != names[-1]) for n, name in enumerate(names)]
    trace = read(*entries)
    assert len(trace.groups) == MAX_GROUPS
    assert trace.groups[0].name == names[-1]


def test_a_trace_comes_back_from_the_wire_and_is_small() -> None:
    entries = [
        entry(number, pg_id=group, process_group=[str(group), ""]) for group in range(40) for number in range(99)
    ]
    trace = read(*entries, members={str(group): tuple(range(512)) for group in range(40)})
    wire = json.dumps(trace.to_json())
    assert Trace.from_json(json.loads(wire)) == trace
    assert len(wire) < 10_000
    assert '"0-511"' in wire


@pytest.mark.parametrize(
    "wrong",
    [
        [[1]],
        [["gloo", "0", "", 0, "x", 1, []]],
        [["gloo", "0", "", 0, "0-99999999", 1, []]],
        ["abcdefg"],
        [[*"abcdef", 1]],
    ],
)
def test_what_is_no_trace_is_refused(wrong: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        Trace.from_json(wrong)


def test_an_empty_recorder_is_a_trace_without_groups() -> None:
    assert flight_recorder.read([{}], case_started_ns=0, members={}) == Trace()
