"""Who waits for whom: tables of what ranks were seen to do, and the sentence for it."""

from collections.abc import Iterable

import pytest

from disttest_runner.diagnosis import comparison, wording
from disttest_runner.diagnosis.comparison import FindingKind, HangFinding
from disttest_runner.diagnosis.flight_recorder import BEFORE, GroupTrace, RecordedOperation, Trace
from disttest_runner.diagnosis.observation import RankObservation, StackPlace
from disttest_runner.diagnosis.wording import MAX_STATES, diagnose
from disttest_runner.results.blame import World, name_ranks
from tests.support.paths import ROOT

WORLD = World(node_names=("node-a", "node-b"), ranks_per_node=2)
ALL = (0, 1, 2, 3)
ELSEWHERE = StackPlace("", "wait_for_ever (test_it.py:40)")


def name(ranks: Iterable[int]) -> str:
    return name_ranks(ranks, WORLD)


def called(
    number: int, op: str = "all_reduce", what: str = "float32[4]", elements: int = 4, *, done: bool = True
) -> RecordedOperation:
    return RecordedOperation(number=number, op=op, what=what, elements=elements, is_done=done)


def group(*entries: RecordedOperation, name: str = "0", members: tuple[int, ...] = ALL, life: int = 0) -> GroupTrace:
    description = "default_pg" if name == "0" else "undefined"
    last = max((entry.number for entry in entries), default=0)
    return GroupTrace(
        backend="gloo", name=name, description=description, life=life, members=members, last=last, entries=entries
    )


def seen(*groups: GroupTrace, place: StackPlace = ELSEWHERE, silent: str = "") -> RankObservation:
    return RankObservation(stack="x", place=place, silent=silent, trace=None if silent else Trace(groups=groups))


def waits(number: int, **changes: str) -> RankObservation:
    return seen(
        group(called(number - 1), called(number, done=False)), place=StackPlace("all_reduce", "add (test_it.py:7)")
    )


def absent(last: int) -> RankObservation:
    return seen(group(called(last)))


STOPPED = seen(silent="is stopped (SIGSTOP or a debugger)")
STARVED = RankObservation(silent="gets too little CPU time to answer", is_excused=True)
NO_RECORDER = RankObservation(place=ELSEWHERE)
NEVER = seen()
OTHER_OP = seen(group(called(4), called(5, "broadcast", done=False)))
OTHER_SIZE = seen(group(called(4), called(5, what="float32[8]", elements=8, done=False)))
OTHER_TYPE = seen(group(called(4), called(5, what="int32[4]", done=False)))
AHEAD = seen(group(called(5), called(6, done=False)))
P2P = RecordedOperation(number=2, op="recv 1<-0", what="float32[1]", elements=1, is_done=False, is_p2p=True)
RECEIVES = seen(group(called(4), P2P))  # by NCCL, which waits on the GPU
BY_STACK = RankObservation(stack="x", place=StackPlace("recv", "add (test_it.py:7)"), trace=Trace())


def find(*what: RankObservation | None, finished: Iterable[int] = ()) -> HangFinding:
    found = {rank: one for rank, one in enumerate(what) if one is not None}
    return comparison.compare(found, unfinished=frozenset(ALL) - set(finished), ranks=ALL)


@pytest.mark.parametrize(
    ("what", "kind", "culprits"),
    [
        ((waits(5), absent(4), waits(5), waits(5)), FindingKind.ABSENT, (1,)),
        ((waits(5), absent(4), NEVER, waits(5)), FindingKind.ABSENT, (1, 2)),
        ((waits(5), STOPPED, waits(5), waits(5)), FindingKind.ABSENT, (1,)),
        ((waits(5), waits(5), waits(5), waits(5)), FindingKind.STUCK, ()),
        ((waits(5), AHEAD, waits(5), waits(5)), FindingKind.STUCK, ()),
        ((waits(5), STARVED, waits(5), waits(5)), FindingKind.UNPROVEN, ()),
        ((waits(5), None, waits(5), waits(5)), FindingKind.UNPROVEN, ()),
        ((waits(5), OTHER_OP, waits(5), waits(5)), FindingKind.MISMATCH, (1,)),
        ((waits(5), OTHER_SIZE, waits(5), waits(5)), FindingKind.MISMATCH, (1,)),
        ((waits(5), OTHER_TYPE, waits(5), waits(5)), FindingKind.MISMATCH, (1,)),
        ((waits(5), OTHER_OP, OTHER_OP, waits(5)), FindingKind.MISMATCH, (0, 1, 2, 3)),
        ((BY_STACK, NEVER, BY_STACK, BY_STACK), FindingKind.ELSEWHERE, (1,)),
        ((BY_STACK, BY_STACK, BY_STACK, BY_STACK), FindingKind.UNKNOWN, ()),
        ((waits(5), BY_STACK, NEVER, waits(5)), FindingKind.ABSENT, (2,)),
        ((waits(5), BY_STACK, BY_STACK, waits(5)), FindingKind.ABSENT, (1, 2)),
        ((waits(5), RECEIVES, NEVER, waits(5)), FindingKind.ABSENT, (2,)),
        ((RECEIVES, NEVER, RECEIVES, RECEIVES), FindingKind.ELSEWHERE, (1,)),
        ((NEVER, NEVER, NEVER, NEVER), FindingKind.UNKNOWN, ()),
        ((NEVER, STOPPED, NEVER, NEVER), FindingKind.SILENT, (1,)),
        ((BY_STACK, STOPPED, BY_STACK, BY_STACK), FindingKind.ELSEWHERE, (1,)),
        ((BY_STACK, STARVED, BY_STACK, BY_STACK), FindingKind.UNKNOWN, ()),
        ((NEVER, STARVED, NEVER, NEVER), FindingKind.UNKNOWN, ()),
        ((STOPPED, STOPPED, STOPPED, STOPPED), FindingKind.UNKNOWN, ()),
        ((NO_RECORDER, NO_RECORDER, NO_RECORDER, NO_RECORDER), FindingKind.UNKNOWN, ()),
        ((None, None, None, None), FindingKind.UNKNOWN, ()),
    ],
)
def test_the_cause_of_a_hang_is_separated_from_its_victims(
    what: tuple[RankObservation | None, ...], kind: FindingKind, culprits: tuple[int, ...]
) -> None:
    found = find(*what)
    assert (found.kind, found.culprits) == (kind, culprits)


def test_a_rank_that_finished_without_the_collective_is_to_blame() -> None:
    found = find(waits(5), absent(4), waits(5), waits(5), finished=[1])
    assert (found.kind, found.culprits, found.absent) == (FindingKind.ABSENT, (1,), {1: 4})


def test_a_rank_without_a_part_in_the_case_is_not_blamed() -> None:
    found = comparison.compare(
        {0: waits(5), 1: waits(5), 2: absent(4), 3: NEVER}, unfinished=frozenset({0, 1}), ranks=(0, 1)
    )
    assert (found.kind, found.culprits) == (FindingKind.STUCK, ())


def test_a_rank_outside_of_the_group_is_not_missed() -> None:
    some = group(called(1, done=False), name="7", members=(1, 3))
    assert find(NEVER, seen(some), NEVER, NEVER).culprits == (3,)


def test_whoever_waits_in_another_group_is_a_victim_too() -> None:
    some = group(called(1, done=False), name="7", members=(1, 3))
    found = find(waits(1), NEVER, waits(1), seen(some))
    assert (found.kind, found.culprits) == (FindingKind.ABSENT, (1,))
    assert dict(found.absent) == {1: 0, 3: 0}


def test_groups_that_wait_for_each_other_are_a_cycle() -> None:
    first, second = (group(called(1, done=False), name=one, members=(0, 1)) for one in "12")
    found = find(seen(first), seen(second), NEVER, NEVER, finished=[2, 3])
    assert (found.kind, found.culprits) == (FindingKind.CYCLE, (0, 1))


def test_a_higher_number_of_a_group_of_that_name_that_is_gone_does_not_count() -> None:
    """The case made a new default group; what a rank did with the old one proves nothing."""
    found = find(waits(1), seen(group(called(40), life=BEFORE)), waits(1), waits(1))
    assert (found.culprits, dict(found.absent)) == ((1,), {1: 0})


def test_a_difference_that_all_ranks_came_through_is_not_what_they_wait_for() -> None:
    odd = seen(group(called(3, "broadcast"), called(4)))
    even = seen(group(called(3), called(4), called(5, done=False)))
    assert find(even, odd, even, even).kind is FindingKind.ABSENT


def test_sizes_too_long_to_show_are_compared_all_the_same() -> None:
    def many(elements: int) -> RankObservation:
        return seen(group(called(5, what="float32[1], " * 7, elements=elements, done=False)))

    found = find(many(7), many(8), many(7), many(7))
    assert (found.kind, found.culprits, len(found.sides)) == (FindingKind.MISMATCH, (1,), 2)


def test_sizes_may_differ_where_the_operation_allows_it() -> None:
    def all_to_all(elements: int) -> RankObservation:
        return seen(group(called(5, "all_to_all", f"float32[{elements}]", elements, done=False)))

    assert find(*(all_to_all(rank + 1) for rank in ALL)).kind is FindingKind.STUCK


def test_a_stopped_rank_is_to_blame_although_the_others_do_not_know_the_members() -> None:
    def unknowing() -> RankObservation:
        return seen(group(called(5, done=False), members=()))

    assert find(unknowing(), STOPPED, unknowing(), unknowing()).culprits == (1,)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (
            (waits(5), absent(4), waits(5), waits(5)),
            (
                "ranks 0, 2, 3 wait in all_reduce number 5 of the default group; rank 1 on node-a has not joined it "
                "(its last was number 4): rank 1 is at wait_for_ever (test_it.py:40)"
            ),
        ),
        (
            (absent(2), absent(4), waits(5), waits(5)),
            (
                "ranks 2, 3 wait in all_reduce number 5 of the default group; ranks 0, 1 on node-a have not joined it "
                "(their last were numbers 2 to 4): ranks 0, 1 are at wait_for_ever (test_it.py:40)"
            ),
        ),
        (
            (waits(5), waits(5), waits(5), STOPPED),
            (
                "ranks 0, 1, 2 wait in all_reduce number 5 of the default group; rank 3 on node-b has not joined it: "
                "rank 3 is stopped (SIGSTOP or a debugger), at wait_for_ever (test_it.py:40)"
            ),
        ),
        (
            (waits(7), waits(7), waits(7), waits(7)),
            (
                "all ranks joined all_reduce number 7 of the default group, but it does not finish on ranks "
                "0, 1, 2, 3: the network or a GPU does not transfer data"
            ),
        ),
        (
            (waits(5), OTHER_OP, waits(5), waits(5)),
            (
                "ranks disagree about collective number 5 of the default group: all_reduce of float32[4] on "
                "ranks 0, 2, 3 on node-a, node-b; broadcast of float32[4] on rank 1 on node-a"
            ),
        ),
        (
            (BY_STACK, NEVER, BY_STACK, BY_STACK),
            "ranks 0, 2, 3 wait in recv; rank 1 on node-a is elsewhere: rank 1 is at wait_for_ever (test_it.py:40)",
        ),
        ((NEVER, NEVER, NEVER, NEVER), "ranks 0, 1, 2, 3 are at wait_for_ever (test_it.py:40)"),
        (
            (waits(5), STARVED, None, waits(5)),
            (
                "ranks 0, 3 wait in all_reduce number 5 of the default group; it is unknown "
                "whether all others joined it: rank 1 gets too little CPU time to answer, "
                "rank 2 was not observed: its agent did not answer"
            ),
        ),
        ((None, None, None, None), ""),
    ],
)
def test_one_sentence_says_it(what: tuple[RankObservation | None, ...], sentence: str) -> None:
    found = {rank: one for rank, one in enumerate(what) if one is not None}
    assert wording.sentence(find(*what), found, {}, name) == sentence


def test_the_sentence_of_the_documentation_is_one_that_is_written() -> None:
    found = {0: waits(5), 1: absent(4), 2: waits(5), 3: waits(5)}
    sentence = wording.sentence(find(*found.values()), found, {}, name)
    assert sentence in " ".join((ROOT / "docs/troubleshooting.md").read_text().split())


def test_the_example_of_the_page_on_hangs_is_a_message_that_is_written() -> None:
    """The page shows the test and the message: rank 1 of 3 returns without the first all_reduce."""
    waiting = seen(group(called(1, done=False), members=(0, 1, 2)), place=StackPlace("all_reduce", "test_hang.py:7"))
    found = {0: waiting, 1: seen(group(members=(0, 1, 2))), 2: waiting}
    world = World(node_names=("local-0",), ranks_per_node=3)
    _, diagnosis = diagnose(
        found, unfinished=(0, 2), finished={1: "passed"}, name=lambda ranks: name_ranks(ranks, world)
    )
    assert diagnosis.summary in " ".join((ROOT / "docs/results/hangs.md").read_text().split())


def test_a_rank_that_finished_is_said_to_have() -> None:
    found = {0: waits(5), 1: absent(4), 2: waits(5), 3: waits(5)}
    culprits, diagnosis = diagnose(found, unfinished=(0, 2, 3), finished={1: "passed"}, name=name)
    assert culprits == (1,)
    assert diagnosis.summary.endswith("rank 1 finished the case (passed)")
    assert diagnosis.states[0] == "waits in all_reduce number 5 of the default group, at add (test_it.py:7)"


def test_a_hang_of_4096_ranks_has_a_short_description() -> None:
    world = World(node_names=tuple(f"node-{index}" for index in range(512)), ranks_per_node=8)
    ranks = tuple(range(4096))
    found = {rank: waits(5) if rank % 2 else absent(4) for rank in ranks}
    found = {
        rank: RankObservation(
            place=one.place, trace=Trace(groups=(group(*one.trace.groups[0].entries, members=ranks),))
        )
        for rank, one in found.items()
        if one.trace
    }
    culprits, diagnosis = diagnose(found, unfinished=ranks, finished={}, name=lambda some: name_ranks(some, world))
    assert culprits == ranks[::2]
    assert len(diagnosis.summary) < 700
    assert len(diagnosis.states) == MAX_STATES
