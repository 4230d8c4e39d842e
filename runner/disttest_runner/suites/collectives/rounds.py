"""One call of a collective: who takes part with what."""

from dataclasses import dataclass

import torch

from disttest_runner.gang import Gang
from disttest_runner.suites.collectives import values


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """`count` elements for each rank. A collective with a root has it at `root`."""

    gang: Gang
    dtype: torch.dtype
    count: int
    turn: int = 0
    root: int = 0

    @property
    def rank(self) -> int:
        return self.gang.rank

    @property
    def world_size(self) -> int:
        return self.gang.world_size

    @property
    def is_root(self) -> bool:
        return self.rank == self.root

    @property
    def everything(self) -> int:
        """Elements of all ranks."""
        return self.count * self.world_size

    def mine(self, count: int) -> torch.Tensor:
        return self.of(self.rank, count, 0)

    def empty(self, count: int) -> torch.Tensor:
        return values.untouched(count, self.gang, self.dtype)

    def of(self, rank: int, count: int, offset: int) -> torch.Tensor:
        return values.contribution(rank, count, self.gang, self.dtype, offset=offset, turn=self.turn)

    def total(self, count: int, offset: int) -> torch.Tensor:
        return values.total(count, self.gang, self.dtype, offset=offset, turn=self.turn)

    def of_all(self, count: int, offset: int, *, first: int) -> torch.Tensor:
        """One rank's part after the other, each from its position `first` on."""
        where = values.positions(count, self.gang, offset)
        rank, place = where // self.count, first + where % self.count
        return values.value(rank, place, self.turn, values.stride(self.gang)).to(self.dtype)


@dataclass(frozen=True, slots=True)
class Buffers:
    """The same one twice where a collective works in place."""

    given: torch.Tensor
    taken: torch.Tensor
