"""A flight recorder's dump becomes a short trace, whatever the backend, and travels as a few characters."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from disttest_runner.diagnosis import comparison, flight_recorder, wording
from disttest_runner.diagnosis.comparison import FindingKind
from disttest_runner.diagnosis.flight_recorder import BEFORE, ENTRIES, MAX_GROUPS, Trace
from disttest_runner.diagnosis.observation import RankObservation, StackPlace
from tests.support.paths import ROOT

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


def nccl(number: int, op: str, p2p: int = 0, *, state: str = "scheduled", **changes: Any) -> dict[str, Any]:
    """An entry of torch's recorder for NCCL: it has both numbers of its group at that time."""
    return entry(
        number,
        f"nccl:{op}",
        done=False,
        state=state,
        **{"p2p_seq_id": p2p, "is_p2p": "->" in op or "<-" in op, **changes},
    )


def closing(number: int, p2p: int = 0, op: str = "coalesced", *, state: str, **changes: Any) -> dict[str, Any]:
    """The entry that torch adds when a batch ends. It alone has the state, and no sizes."""
    nothing: dict[str, Any] = {key: [] for key in ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")}
    return nccl(number, op, p2p, state=state, **nothing, **changes)


def exchange(number: int, p2p: int, *, state: str, **changes: Any) -> list[dict[str, Any]]:
    """A batch of batch_isend_irecv as rank 0 records it. Its members stay scheduled for ever."""
    members = [nccl(number, op, p2p) for op in ("send 0->1", "recv 0<-1")]
    return [*members, closing(number, p2p, state=state, **changes)]


GATHERED = [nccl(2, "_broadcast_oop") for _ in range(2)]  # all_gather of unequal sizes


@pytest.mark.parametrize("is_p2p", [False, True])
def test_a_finished_batch_of_sends_is_not_waited_for(*, is_p2p: bool) -> None:
    """Torch calls the closing entry a collective, with the number of the last one. Both forms are read."""
    batches = [one for p2p in (1, 2, 3) for one in exchange(1, p2p, state="completed", is_p2p=is_p2p)]
    (group,) = read(nccl(1, "all_reduce", state="completed"), *batches).groups
    assert (group.pending, group.pending_p2p, group.last) == (None, None, 1)


@pytest.mark.parametrize("is_p2p", [False, True])
@pytest.mark.parametrize("state", ["scheduled", "started"])
def test_a_batch_of_sends_that_hangs_is_shown_with_its_members(state: str, *, is_p2p: bool) -> None:
    batches = [*exchange(1, 1, state="completed", is_p2p=is_p2p), *exchange(1, 2, state=state, is_p2p=is_p2p)]
    (group,) = read(nccl(1, "all_reduce", state="completed"), *batches).groups
    assert group.pending is None
    assert group.pending_p2p is not None
    assert group.pending_p2p.op == "batch of send 0->1, recv 0<-1"


def test_a_single_send_next_to_finished_batches_is_still_waited_for() -> None:
    single = nccl(0, "send 0->1", 2, state="started")
    (group,) = read(*exchange(0, 1, state="completed"), single, *exchange(0, 3, state="completed")).groups
    assert group.pending_p2p is not None
    assert group.pending_p2p.op == "send 0->1"


def test_a_collective_before_a_batch_keeps_its_own_state() -> None:
    (group,) = read(nccl(4, "all_reduce", state="started"), *exchange(4, 1, state="scheduled")).groups
    assert group.pending is not None
    assert (group.pending.number, group.pending.op) == (4, "all_reduce")
    assert group.pending_p2p is not None


@pytest.mark.parametrize("op", ["coalesced", "ALLGATHER_coalesced"])
@pytest.mark.parametrize(("state", "waits"), [("completed", False), ("started", True), ("scheduled", True)])
def test_a_batch_of_collectives_has_the_state_of_its_closing_entry(op: str, state: str, *, waits: bool) -> None:
    first = nccl(1, "all_reduce", state="completed")
    (group,) = read(first, *GATHERED, closing(2, op=op, state=state)).groups
    assert [one.number for one in group.entries] == [1, 2]
    assert group.entries[-1].op == op
    assert group.entries[-1].is_done is not waits
    assert group.last == 2


def test_a_batch_of_one_collective_is_compared_like_a_single_one() -> None:
    (group,) = read(nccl(1, "all_reduce"), closing(1, state="started")).groups
    assert group.pending is not None
    assert (group.pending.op, group.pending.what) == ("all_reduce", "float32[4]")


def test_a_batch_of_sends_and_collectives_is_waited_for_in_both() -> None:
    batch = [nccl(1, "send 0->1", 1), nccl(2, "all_reduce", 1), nccl(2, "all_reduce", 1)]
    (done,) = read(*batch, closing(2, 1, state="completed")).groups
    assert (done.pending, done.pending_p2p) == (None, None)
    (hangs,) = read(*batch, closing(2, 1, state="started")).groups
    assert hangs.pending is not None
    assert hangs.pending_p2p is not None


def test_a_call_that_coalesces_itself_has_its_own_state() -> None:
    """all_gather_into_tensor_coalesced is one entry, with sizes."""
    (group,) = read(nccl(1, "all_gather_into_tensor_coalesced", state="started")).groups
    assert group.pending is not None
    assert group.pending.what == "float32[4]"


@pytest.mark.parametrize("state", ["completed", "started"])
@pytest.mark.parametrize(
    ("number", "p2p", "before", "is_p2p"),
    [
        (0, 3, [], True),
        (2, 0, [], False),
        (2, 3, [nccl(1, "all_reduce", 3, state="completed")], False),
        (2, 3, [], True),
    ],
    ids=["only sends", "only collectives", "a new collective", "nothing before"],
)
def test_a_closing_entry_whose_members_are_lost_is_a_batch(
    number: int, p2p: int, before: list[dict[str, Any]], state: str, *, is_p2p: bool
) -> None:
    """The ring forgets the oldest entries; torch 2.7 records no members of a batch of collectives."""
    (group,) = read(*before, closing(number, p2p, state=state)).groups
    shown = group.pending_p2p if is_p2p else group.pending
    assert (shown is not None) is (state == "started")
    assert (group.pending if is_p2p else group.pending_p2p) is None


def test_a_batch_of_which_the_ring_has_lost_some_members_is_still_shown() -> None:
    (group,) = read(*exchange(0, 1, state="started")[1:]).groups
    assert group.pending_p2p is not None
    assert group.pending_p2p.op == "batch of recv 0<-1"


@pytest.mark.parametrize("members", [exchange(0, 1, state="started")[:2], GATHERED])
def test_members_without_a_closing_entry_are_not_waited_for(members: list[dict[str, Any]]) -> None:
    """Torch adds it before the batch is sent, but not while a CUDA graph is captured."""
    (group,) = read(*members).groups
    assert (group.pending, group.pending_p2p) == (None, None)


def test_a_retired_closing_entry_has_ended_with_its_members() -> None:
    (group,) = read(*exchange(0, 1, state="started", retired=True)).groups
    assert group.pending_p2p is None


def test_the_last_collective_is_known_although_the_ring_holds_only_sends() -> None:
    (group,) = read(*exchange(7, 900, state="completed")).groups
    assert group.last == 7


def test_a_rank_that_loads_data_after_a_finished_batch_does_not_wait() -> None:
    """The others wait in the next collective, which it has not joined: it is the cause."""
    first = [nccl(1, "all_reduce", state="completed"), *exchange(1, 1, state="completed")]
    loads = RankObservation(place=StackPlace("", "next_batch (loader.py:8)"), trace=read(*first, members={"0": (0, 1)}))
    waits = RankObservation(trace=read(*first, nccl(2, "all_reduce", 1, state="started"), members={"0": (0, 1)}))
    found = comparison.compare({0: waits, 1: loads}, unfinished={0, 1}, ranks=(0, 1))
    assert loads.waits_in == ""
    assert (found.kind, found.culprits) == (FindingKind.ABSENT, (1,))


def test_ranks_that_wait_in_a_batch_are_victims_of_one_that_does_not() -> None:
    """The closing entry's number is that of a collective that both have finished."""
    first = nccl(1, "all_reduce", state="completed")
    waits = RankObservation(trace=read(first, *exchange(1, 1, state="started"), members={"0": (0, 1)}))
    other = RankObservation(place=StackPlace("", "spin (test_it.py:4)"), trace=read(first, members={"0": (0, 1)}))
    found = comparison.compare({0: waits, 1: other}, unfinished={0, 1}, ranks=(0, 1))
    assert (found.kind, found.culprits, found.waiting) == (FindingKind.ELSEWHERE, (1,), (0,))


# Dumps of all ranks by case; each file states which versions of torch write that form, and whether it was recorded.
FILES = {
    path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "tests/data/flight_recorder").glob("*.json"))
}
FINDINGS = {
    "collective": (
        FindingKind.ABSENT,
        "rank 0 waits in all_reduce number 3 of the default group; rank 1 has not joined",
    ),
    "batch of sends": (FindingKind.ELSEWHERE, "rank 0 waits in batch of send 0->1, recv 0<-1; rank 1 is elsewhere"),
    "batch of collectives": (FindingKind.ABSENT, "coalesced number 3 of the default group; rank 1 has not joined"),
}


def traced(dumps: list[Any]) -> Trace:
    return flight_recorder.read(dumps, case_started_ns=CASE, members={"0": (0, 1)})


def name(ranks: Iterable[int]) -> str:
    return f"rank {', '.join(map(str, ranks))}"


@pytest.mark.parametrize(
    ("file", "case"), [(file, case) for file, content in FILES.items() for case in content["cases"]]
)
def test_a_hang_is_found_in_the_dumps_of_every_version_of_torch(file: str, case: str) -> None:
    waits, loads = (traced(dumps) for dumps in FILES[file]["cases"][case])
    seen = {
        0: RankObservation(trace=waits),
        1: RankObservation(trace=loads, place=StackPlace("", "next_batch (loader.py:8)")),
    }
    finding = comparison.compare(seen, unfinished={0, 1}, ranks=(0, 1))
    kind, words = FINDINGS[case]
    assert (finding.kind, finding.culprits) == (kind, (1,))
    assert words in wording.sentence(finding, seen, {}, name)
    assert seen[1].waits_in == ""


def test_the_files_cover_every_version_of_torch() -> None:
    versions = {version for content in FILES.values() for version in content["torch"]}
    assert versions == {f"2.{minor}" for minor in range(7, 14)}


def test_the_dumps_of_the_last_version_have_the_keys_that_torch_writes() -> None:
    torch = pytest.importorskip("torch")
    responder = pytest.importorskip("disttest_runner.diagnosis.responder")
    dist = torch.distributed
    version = ".".join(torch.__version__.split(".")[:2])
    files = [content for content in FILES.values() if version in content["torch"]]
    if not responder.records_gloo() or not files:
        pytest.skip(f"torch {version} does not record gloo, or no file has its form")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(1))
        written = responder.dumps()[0]
    finally:
        dist.destroy_process_group()
    for content in files:
        dump = content["cases"]["collective"][0][0]
        assert (dump.keys(), dump["version"]) == (written.keys(), written["version"])
        assert {key for one in dump["entries"] for key in one} == written["entries"][-1].keys()
