"""Does every collective put the right value at every place, on every rank? Compared exactly, element by element.

What a rank contributes depends on its number and on the position, so a rank that was left out, counted twice or shifted
shows. The expected value is computed by each rank alone, from the formula.
"""

import functools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]  # exported when run

from disttest_runner.gang import Gang

pytestmark = pytest.mark.usefixtures("process_group")

# Sums stay below 256, so that they are exact in bfloat16 and fit into a byte: in a large world, at each position, only
# every so many ranks contribute. Each rank contributes somewhere.
CONTRIBUTORS = 32
LARGEST = 7

SMALL, ODD, LARGE = 1, 1031, 262_147  # elements: one, a prime, a prime above 1 MiB of float32
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
LATE_SECONDS = 0.05


def contribution(rank: int, count: int, gang: Gang, dtype: torch.dtype, offset: int = 0) -> torch.Tensor:
    """What a rank puts in at positions offset .. offset + count - 1."""
    stride = -(-gang.world_size // CONTRIBUTORS)
    positions = torch.arange(offset, offset + count, device=gang.device)
    values = 1 + (3 * rank + 5 * positions) % LARGEST
    return torch.where((rank + positions) % stride == 0, values, 0).to(dtype)


def total(count: int, gang: Gang, dtype: torch.dtype, offset: int = 0) -> torch.Tensor:
    """The sum over all ranks, computed here."""
    parts = (contribution(rank, count, gang, torch.int64, offset) for rank in range(gang.world_size))
    return functools.reduce(torch.add, parts).to(dtype)


def untouched(count: int, gang: Gang, dtype: torch.dtype) -> torch.Tensor:
    """A value that no contribution has: what a collective did not write is seen."""
    return torch.full((count,), 99, device=gang.device).to(dtype)


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Exactly, and with a sentence about the first difference."""
    wrong = torch.nonzero(got.double() != expected.double()).flatten()
    if len(wrong):
        at = int(wrong[0])
        pytest.fail(
            f"{len(wrong)} of {len(got)} elements are wrong; "
            f"the first at {at}: {got[at].item()} instead of {expected[at].item()}"
        )


@functools.cache
def group_of_one() -> Any:
    """A gloo group in which nobody else is: for asking what gloo can do."""
    return dist.ProcessGroupGloo(HashStore(), 0, 1, timedelta(seconds=30))


def expect_gap(gang: Gang, dtype: torch.dtype, call: Callable[[Any, torch.Tensor, torch.Tensor], Any]) -> None:
    """Gloo has not every type for every collective: tried alone first, so that only what torch refuses may fail."""
    if gang.backend != "gloo":
        return
    one, two = (torch.zeros(1, device=gang.device).to(dtype) for _ in range(2))
    try:
        call(group_of_one(), one, two).wait()
    except (RuntimeError, ValueError) as error:
        pytest.xfail(f"gloo of torch {torch.__version__} refuses {names(dtype)} here: {str(error).splitlines()[0]}")


def gather_into(output: torch.Tensor, mine: torch.Tensor) -> None:
    """Torch 2.13 renames this function, keeping the older name for a while."""
    getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(output, mine)


def scatter_reduced(output: torch.Tensor, mine: torch.Tensor) -> None:
    """Likewise."""
    getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(output, mine)


def names(value: object) -> str:
    return str(value).removeprefix("torch.")


def dtypes(*chosen: torch.dtype) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("dtype", chosen, ids=names)


def sizes(*chosen: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", chosen)


@dtypes(*FLOATS, *INTEGERS)
def test_all_reduce_sum(gang: Gang, dtype: torch.dtype) -> None:
    expect_gap(gang, dtype, lambda group, one, _: group.allreduce([one]))
    tensor = contribution(gang.rank, ODD, gang, dtype)
    dist.all_reduce(tensor)
    same(tensor, total(ODD, gang, dtype))


@sizes(SMALL, LARGE)
def test_all_reduce_sum_of_size(gang: Gang, count: int) -> None:
    tensor = contribution(gang.rank, count, gang, torch.float32)
    dist.all_reduce(tensor)
    same(tensor, total(count, gang, torch.float32))


@dtypes(torch.float32, torch.bfloat16, torch.int64)
def test_all_reduce_max(gang: Gang, dtype: torch.dtype) -> None:
    expect_gap(gang, dtype, lambda group, one, _: group.allreduce([one]))
    tensor = contribution(gang.rank, ODD, gang, dtype)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    parts = (contribution(rank, ODD, gang, torch.int64) for rank in range(gang.world_size))
    same(tensor, functools.reduce(torch.maximum, parts).to(dtype))


def test_all_reduce_of_two_at_once(gang: Gang) -> None:
    one, two = (contribution(gang.rank, ODD, gang, torch.float32, offset) for offset in (0, ODD))
    works = [dist.all_reduce(tensor, async_op=True) for tensor in (one, two)]
    for work in works:
        if work is not None:
            work.wait()
    same(one, total(ODD, gang, torch.float32))
    same(two, total(ODD, gang, torch.float32, ODD))


@dtypes(*FLOATS, torch.int64, torch.uint8, torch.float8_e4m3fn)
def test_all_gather(gang: Gang, dtype: torch.dtype) -> None:
    expect_gap(gang, dtype, lambda group, one, two: group.allgather([[one]], [two]))
    gathered = untouched(ODD * gang.world_size, gang, dtype)
    gather_into(gathered, contribution(gang.rank, ODD, gang, dtype))
    same(gathered, torch.cat([contribution(rank, ODD, gang, dtype) for rank in range(gang.world_size)]))


def test_all_gather_into_a_list(gang: Gang) -> None:
    gathered = [untouched(ODD, gang, torch.float32) for _ in range(gang.world_size)]
    dist.all_gather(gathered, contribution(gang.rank, ODD, gang, torch.float32))
    for rank, tensor in enumerate(gathered):
        same(tensor, contribution(rank, ODD, gang, torch.float32))


def test_all_gather_of_objects(gang: Gang) -> None:
    gathered: list[object] = [None] * gang.world_size
    dist.all_gather_object(gathered, {"rank": gang.rank})
    assert gathered == [{"rank": rank} for rank in range(gang.world_size)]


@dtypes(*FLOATS, torch.int64)
def test_reduce_scatter(gang: Gang, dtype: torch.dtype) -> None:
    expect_gap(gang, dtype, lambda group, one, two: group._reduce_scatter_base(one, two))  # noqa: SLF001 - gloo names it so
    mine = untouched(ODD, gang, dtype)
    scatter_reduced(mine, contribution(gang.rank, ODD * gang.world_size, gang, dtype))
    same(mine, total(ODD, gang, dtype, offset=ODD * gang.rank))


@sizes(SMALL, LARGE)
def test_reduce_scatter_of_size(gang: Gang, count: int) -> None:
    mine = untouched(count, gang, torch.float32)
    scatter_reduced(mine, contribution(gang.rank, count * gang.world_size, gang, torch.float32))
    same(mine, total(count, gang, torch.float32, offset=count * gang.rank))


@dtypes(torch.float32, torch.bfloat16, torch.int64)
def test_all_to_all(gang: Gang, dtype: torch.dtype) -> None:
    expect_gap(gang, dtype, lambda group, one, two: group.alltoall_base(one, two, [], []))
    got = untouched(ODD * gang.world_size, gang, dtype)
    dist.all_to_all_single(got, contribution(gang.rank, ODD * gang.world_size, gang, dtype))
    parts = [contribution(rank, ODD, gang, dtype, offset=ODD * gang.rank) for rank in range(gang.world_size)]
    same(got, torch.cat(parts))


def test_all_to_all_of_uneven_parts(gang: Gang) -> None:
    """Rank r sends s + 1 elements to rank s, so everybody receives r + 1 from each."""
    world, mine = gang.world_size, gang.rank + 1
    outgoing = contribution(gang.rank, world * (world + 1) // 2, gang, torch.float32)
    got = untouched(mine * world, gang, torch.float32)
    dist.all_to_all_single(got, outgoing, [mine] * world, [rank + 1 for rank in range(world)])
    offset = gang.rank * (gang.rank + 1) // 2
    same(got, torch.cat([contribution(rank, mine, gang, torch.float32, offset) for rank in range(world)]))


@dtypes(torch.float32, torch.float16, torch.int64, torch.float8_e4m3fn)
def test_broadcast_from_the_first(gang: Gang, dtype: torch.dtype) -> None:
    expect_gap(gang, dtype, lambda group, one, _: group.broadcast(one, 0))
    tensor = contribution(gang.rank, ODD, gang, dtype)
    dist.broadcast(tensor, src=0)
    same(tensor, contribution(0, ODD, gang, dtype))


@sizes(SMALL, LARGE)
def test_broadcast_from_the_last(gang: Gang, count: int) -> None:
    last = gang.world_size - 1
    tensor = (
        contribution(gang.rank, count, gang, torch.float32)
        if gang.rank == last
        else untouched(count, gang, torch.float32)
    )
    dist.broadcast(tensor, src=last)
    same(tensor, contribution(last, count, gang, torch.float32))


@dtypes(torch.float32, torch.bfloat16, torch.int64)
def test_ring_of_send_and_receive(gang: Gang, dtype: torch.dtype) -> None:
    """Everybody sends to the next rank and receives from the one before."""
    if gang.world_size == 1:
        pytest.skip("not run: a ring needs two ranks")
    following, before = (gang.rank + 1) % gang.world_size, (gang.rank - 1) % gang.world_size
    got = untouched(ODD, gang, dtype)
    exchange = [
        dist.P2POp(dist.isend, contribution(gang.rank, ODD, gang, dtype), following),
        dist.P2POp(dist.irecv, got, before),
    ]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
    same(got, contribution(before, ODD, gang, dtype))


def test_barrier_holds_everybody_until_the_last_has_come(gang: Gang) -> None:
    """Each rank counts itself in before the barrier, the last one late; behind it all must be counted. Three rounds."""
    store = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - a way to see each other without a collective
    for turn in range(3):
        if gang.rank == (gang.world_size - 1 - turn) % gang.world_size:
            time.sleep(LATE_SECONDS)
        key = f"barrier/{turn}"
        store.add(key, 1)
        dist.barrier()
        assert store.add(key, 0) == gang.world_size
