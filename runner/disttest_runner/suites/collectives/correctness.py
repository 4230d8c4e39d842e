"""Does every collective deliver the right value for every element on every rank? Compares exactly."""

import itertools
import time
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from disttest_runner.process_group import device
from disttest_runner.process_group.gang import Gang
from disttest_runner.rank.fixtures import GENERATION
from disttest_runner.suites.collectives import operations, values
from disttest_runner.suites.collectives.operations import Operation, Round
from disttest_runner.suites.collectives.values import TURNS, contribution, expect_gap, names, positions, same, untouched

pytestmark = pytest.mark.usefixtures("process_group")

SMALL, ODD, LARGE = 1, 1031, 65_537  # elements of a rank: one, a prime, and a prime above 64 Ki
MOST_ELEMENTS = 1 << 26  # of the buffers of one rank: parts are smaller in a large world
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
NOT_FOR_SUMS = (torch.float8_e4m3fn,)
AT_ALL_SIZES = (torch.float32, torch.bfloat16)
LATE_SECONDS = 0.05
EXTREMES = {
    "max": (dist.ReduceOp.MAX, 1),
    "min": (dist.ReduceOp.MIN, -1),  # of the negative values
}


def matrix() -> Iterator[object]:
    for operation in operations.ALL:
        for dtype in (*FLOATS, *INTEGERS, *(() if operation.is_sum else NOT_FOR_SUMS)):
            for count in (SMALL, ODD, LARGE) if dtype in AT_ALL_SIZES else (SMALL, ODD):
                yield pytest.param(operation, dtype, count, id=f"{operation.name}-{names(dtype)}-{count}")


@pytest.mark.parametrize(("operation", "dtype", "count"), list(matrix()))
def test_every_element(gang: Gang, operation: Operation, dtype: torch.dtype, count: int) -> None:
    """Twice with other values, so that results of the first call are wrong for the second."""
    if operation.needs_peers and gang.world_size == 1:
        pytest.skip(f"not run: {operation.name} needs two ranks")
    if dtype in NOT_FOR_SUMS and (gap := device.of_backend(gang.backend).float8_gap(gang.device)):
        pytest.skip(f"not run: {gap}")
    expect_gap(gang, dtype, operation.alone)
    count = min(count, MOST_ELEMENTS // operation.copies_held(gang.world_size))
    for turn in TURNS:
        it = Round(gang=gang, dtype=dtype, count=count, turn=turn, root=gang.world_size - 1)
        buffers = operation.buffers(it)
        operation.call(it, buffers)
        wrong, message = operation.count_wrong(it, buffers)
        if wrong:
            pytest.fail(f"at call {turn + 1}: {message}", pytrace=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=names)
@pytest.mark.parametrize(("reduction", "sign"), EXTREMES.values(), ids=EXTREMES)
def test_all_reduce_of_extremes(gang: Gang, reduction: dist.ReduceOp, sign: int, dtype: torch.dtype) -> None:
    for turn in TURNS:
        tensor = sign * contribution(gang.rank, ODD, gang, dtype, turn=turn)
        dist.all_reduce(tensor, op=reduction)
        same(tensor, sign * values.combined(gang, torch.maximum, positions(ODD, gang), turn).to(dtype))


def test_all_reduce_of_two_at_once(gang: Gang) -> None:
    for turn in TURNS:
        one, two = (contribution(gang.rank, ODD, gang, torch.float32, offset=offset, turn=turn) for offset in (0, ODD))
        works = [dist.all_reduce(tensor, async_op=True) for tensor in (one, two)]
        for work in works:
            if work is not None:
                work.wait()
        same(one, values.total(ODD, gang, torch.float32, turn=turn))
        same(two, values.total(ODD, gang, torch.float32, offset=ODD, turn=turn))


def test_all_reduce_in_two_groups_at_once(gang: Gang) -> None:
    """Even and odd ranks, or all ranks twice in small worlds: a group adds up its own members only."""
    all_ranks = list(range(gang.world_size))
    members = [all_ranks[::2], all_ranks[1::2]] if gang.world_size > 3 else [all_ranks, all_ranks]
    groups = [dist.new_group(ranks) for ranks in members]  # all ranks create both
    mine = [(ranks, group) for ranks, group in zip(members, groups, strict=True) if gang.rank in ranks]
    for turn in TURNS:
        parts = [contribution(gang.rank, ODD, gang, torch.float64, turn=turn) for _ in mine]
        works = [dist.all_reduce(part, group=mine[place][1], async_op=True) for place, part in enumerate(parts)]
        for (ranks, _), part, work in zip(mine, parts, works, strict=True):
            if work is not None:
                work.wait()
            of_members = (contribution(rank, ODD, gang, torch.float64, turn=turn) for rank in ranks)
            same(part, sum(of_members, torch.zeros_like(part)))
    for _, group in mine:
        dist.destroy_process_group(group)


def test_all_gather_into_a_list(gang: Gang) -> None:
    for turn in TURNS:
        gathered = [untouched(ODD, gang, torch.float32) for _ in range(gang.world_size)]
        dist.all_gather(gathered, contribution(gang.rank, ODD, gang, torch.float32, turn=turn))
        for rank, tensor in enumerate(gathered):
            same(tensor, contribution(rank, ODD, gang, torch.float32, turn=turn))


def test_all_gather_of_objects(gang: Gang) -> None:
    for turn in TURNS:
        gathered: list[object] = [None] * gang.world_size
        dist.all_gather_object(gathered, {"rank": gang.rank, "turn": turn})
        assert gathered == [{"rank": rank, "turn": turn} for rank in range(gang.world_size)]


def test_broadcast_from_every_rank_in_turn(gang: Gang) -> None:
    """The first 16 and the last."""
    roots = sorted({*range(min(16, gang.world_size)), gang.world_size - 1})
    for turn, root in itertools.product(TURNS, roots):
        it = Round(gang=gang, dtype=torch.float32, count=ODD, turn=turn, root=root)
        buffers = operations.BY_NAME["broadcast"].buffers(it)
        dist.broadcast(buffers.given, src=root)
        same(buffers.taken, it.of(root, ODD, 0))


def test_broadcast_of_objects(gang: Gang) -> None:
    for turn in TURNS:
        objects: list[object] = [f"turn {turn} of rank {gang.rank}"]
        dist.broadcast_object_list(objects, src=0)
        assert objects == [f"turn {turn} of rank 0"]


def test_all_to_all_of_uneven_parts(gang: Gang) -> None:
    """Each rank sends s + 1 elements to rank s, so rank r receives r + 1 from each."""
    world, mine = gang.world_size, gang.rank + 1
    offset = gang.rank * (gang.rank + 1) // 2
    for turn in TURNS:
        outgoing = contribution(gang.rank, world * (world + 1) // 2, gang, torch.float32, turn=turn)
        got = untouched(mine * world, gang, torch.float32)
        dist.all_to_all_single(got, outgoing, [mine] * world, [rank + 1 for rank in range(world)])
        parts = (contribution(rank, mine, gang, torch.float32, offset=offset, turn=turn) for rank in range(world))
        same(got, torch.cat(list(parts)))


def test_send_and_receive_along_a_chain(gang: Gang) -> None:
    """Each rank receives from the one before, adds its part and sends the sum on."""
    if gang.world_size == 1:
        pytest.skip("not run: a chain needs two ranks")
    for turn in TURNS:
        mine = contribution(gang.rank, ODD, gang, torch.float32, turn=turn)
        got = torch.zeros_like(mine)
        if gang.rank:
            dist.recv(got, src=gang.rank - 1)
        before = (contribution(rank, ODD, gang, torch.float32, turn=turn) for rank in range(gang.rank))
        same(got, sum(before, torch.zeros_like(mine)))
        if gang.rank + 1 < gang.world_size:
            dist.send(got + mine, dst=gang.rank + 1)


def test_barrier_holds_everybody_until_the_last_has_come(pytestconfig: pytest.Config, gang: Gang) -> None:
    """Each rank counts itself before the barrier, one of them late; after it all must be counted. Three rounds."""
    store = pytestconfig.stash[GENERATION].case_store("barrier")  # communication without a collective
    for turn in range(3):
        if gang.rank == (gang.world_size - 1 - turn) % gang.world_size:
            time.sleep(LATE_SECONDS)
        key = str(turn)
        store.add(key, 1)
        dist.barrier()
        assert store.add(key, 0) == gang.world_size
