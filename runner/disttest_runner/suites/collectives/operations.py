"""The collectives: buffers, call and expected result of each."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist

from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.collectives import values


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One call with `count` elements for each rank, and `root` for collectives that have one."""

    gang: Gang
    dtype: torch.dtype
    count: int
    turn: int = 0
    root: int = 0

    @property
    def is_root(self) -> bool:
        return self.gang.rank == self.root

    @property
    def everything(self) -> int:
        return self.count * self.gang.world_size

    def mine(self, count: int) -> torch.Tensor:
        return self.of(self.gang.rank, count, 0)

    def empty(self, count: int) -> torch.Tensor:
        return values.untouched(count, self.gang, self.dtype)

    def of(self, rank: int, count: int, offset: int) -> torch.Tensor:
        return values.contribution(rank, count, self.gang, self.dtype, offset=offset, turn=self.turn)

    def total(self, count: int, offset: int) -> torch.Tensor:
        return values.total(count, self.gang, self.dtype, offset=offset, turn=self.turn)

    def of_all(self, count: int, offset: int, *, first: int) -> torch.Tensor:
        """Return the parts of all ranks in order, each from its position `first`."""
        where = values.positions(count, self.gang, offset)
        rank, place = where // self.count, first + where % self.count
        return values.value(rank, place, self.turn, values.stride(self.gang)).to(self.dtype)


@dataclass(frozen=True, slots=True)
class Buffers:
    """Both are the same tensor if a collective works in place."""

    given: torch.Tensor
    taken: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    name: str
    given: Callable[[Round], torch.Tensor]
    taken: Callable[[Round], torch.Tensor] | None = None  # None: in place
    call: Callable[[Round, Buffers], object]
    expected: Callable[[Round, int, int], torch.Tensor]  # count, offset
    alone: values.Call | None  # the call in a group of one, to test whether gloo supports it
    copies_held: Callable[[int], int]  # world size -> largest size of both buffers, in units of `count`
    has_result: Callable[[Round], bool] = lambda _: True
    is_sum: bool = False  # sums do not support every type
    needs_peers: bool = False

    def buffers(self, it: Round) -> Buffers:
        given = self.given(it)
        return Buffers(given, self.taken(it) if self.taken else given)

    def count_wrong(self, it: Round, buffers: Buffers) -> tuple[int, str]:
        if not self.has_result(it):
            return 0, ""
        return values.count_wrong(buffers.taken, lambda count, offset: self.expected(it, count, offset))


# Torch 2.13 renames these functions and deprecates the older names.
gather_into: Callable[..., object] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
scatter_reduced: Callable[..., object] = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def gather(it: Round, buffers: Buffers) -> None:
    parts = list(buffers.taken.chunk(it.gang.world_size)) if it.is_root else None
    dist.gather(buffers.given, parts, dst=it.root)


def scatter(it: Round, buffers: Buffers) -> None:
    parts = list(buffers.given.chunk(it.gang.world_size)) if it.is_root else None
    dist.scatter(buffers.taken, parts, src=it.root)


def exchange(buffers: Buffers, *, to: int, source: int) -> None:
    both = [dist.P2POp(dist.isend, buffers.given, to), dist.P2POp(dist.irecv, buffers.taken, source)]
    for work in dist.batch_isend_irecv(both):
        work.wait()


def exchanging(buffers: Buffers, partner: int | None) -> Callable[[], None]:
    """Send to and receive from one other rank at once; without a partner do nothing."""
    return functools.partial(exchange, buffers, to=partner, source=partner) if partner is not None else lambda: None


def pass_on(it: Round, buffers: Buffers) -> None:
    """Send to the next rank of the ring and receive from the one before, at once."""
    exchange(buffers, to=(it.gang.rank + 1) % it.gang.world_size, source=(it.gang.rank - 1) % it.gang.world_size)


ALL = (
    Operation(
        name="all_reduce",
        given=lambda it: it.mine(it.count),
        call=lambda _, buffers: dist.all_reduce(buffers.given),
        expected=lambda it, count, offset: it.total(count, offset),
        alone=lambda group, one, _: group.allreduce([one]),
        copies_held=lambda _: 1,
        is_sum=True,
    ),
    Operation(
        name="all_gather",
        given=lambda it: it.mine(it.count),
        taken=lambda it: it.empty(it.everything),
        call=lambda _, buffers: gather_into(buffers.taken, buffers.given),
        expected=lambda it, count, offset: it.of_all(count, offset, first=0),
        alone=lambda group, one, two: group.allgather([[one]], [two]),
        copies_held=lambda world_size: world_size + 1,
    ),
    Operation(
        name="reduce_scatter",
        given=lambda it: it.mine(it.everything),
        taken=lambda it: it.empty(it.count),
        call=lambda _, buffers: scatter_reduced(buffers.taken, buffers.given),
        expected=lambda it, count, offset: it.total(count, it.count * it.gang.rank + offset),
        alone=lambda group, one, two: group._reduce_scatter_base(one, two),  # noqa: SLF001 - there is no public name
        copies_held=lambda world_size: world_size + 1,
        is_sum=True,
    ),
    Operation(
        name="all_to_all",
        given=lambda it: it.mine(it.everything),
        taken=lambda it: it.empty(it.everything),
        call=lambda _, buffers: dist.all_to_all_single(buffers.taken, buffers.given),
        expected=lambda it, count, offset: it.of_all(count, offset, first=it.count * it.gang.rank),
        alone=lambda group, one, two: group.alltoall_base(one, two, [], []),
        copies_held=lambda world_size: 2 * world_size,
    ),
    Operation(
        name="broadcast",
        given=lambda it: it.mine(it.count) if it.is_root else it.empty(it.count),
        call=lambda it, buffers: dist.broadcast(buffers.given, src=it.root),
        expected=lambda it, count, offset: it.of(it.root, count, offset),
        alone=lambda group, one, _: group.broadcast(one, 0),
        copies_held=lambda _: 1,
    ),
    Operation(
        name="reduce",
        given=lambda it: it.mine(it.count),
        call=lambda it, buffers: dist.reduce(buffers.given, dst=it.root),
        expected=lambda it, count, offset: it.total(count, offset),
        alone=lambda group, one, _: group.reduce(one, 0),
        copies_held=lambda _: 1,
        has_result=lambda it: it.is_root,
        is_sum=True,
    ),
    Operation(
        name="gather",
        given=lambda it: it.mine(it.count),
        taken=lambda it: it.empty(it.everything if it.is_root else 0),
        call=gather,
        expected=lambda it, count, offset: it.of_all(count, offset, first=0),
        alone=lambda group, one, two: group.gather([[one]], [two], dist.GatherOptions()),
        copies_held=lambda world_size: world_size + 1,
        has_result=lambda it: it.is_root,
    ),
    Operation(
        name="scatter",
        given=lambda it: it.mine(it.everything if it.is_root else 0),
        taken=lambda it: it.empty(it.count),
        call=scatter,
        expected=lambda it, count, offset: it.of(it.root, count, it.count * it.gang.rank + offset),
        alone=lambda group, one, two: group.scatter([one], [[two]], dist.ScatterOptions()),
        copies_held=lambda world_size: world_size + 1,
    ),
    Operation(
        name="send_recv",
        given=lambda it: it.mine(it.count),
        taken=lambda it: it.empty(it.count),
        call=pass_on,
        expected=lambda it, count, offset: it.of((it.gang.rank - 1) % it.gang.world_size, count, offset),
        alone=None,  # no rank can send to itself, and gloo sends bytes
        copies_held=lambda _: 2,
        needs_peers=True,
    ),
)
BY_NAME: Mapping[str, Operation] = {operation.name: operation for operation in ALL}
