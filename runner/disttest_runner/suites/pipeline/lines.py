"""The ranks that form one pipeline: all of a small gang; a large one has several pipelines side by side."""

import functools
import itertools
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist

from disttest_runner.gang import Gang

LONGEST = 16  # ranks of one pipeline: plans grow with the square of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    number: int
    rank: int  # in this pipeline
    size: int
    group: dist.ProcessGroup | None  # None: all ranks of the gang
    device: torch.device
    backend: str

    @property
    def microbatches(self) -> int:
        """Enough for every schedule: some want one for each stage, of which a rank has two."""
        return 2 * self.size


def join_line(gang: Gang) -> Line:
    """Skips the case where there is nobody to pass anything to."""
    if gang.world_size == 1:
        pytest.skip("not run: a pipeline needs two ranks")
    bounds = cut(gang.world_size)
    number = next(number for number, end in enumerate(bounds[1:]) if gang.rank < end)
    groups = _groups(gang.generation, bounds) if len(bounds) > 2 else (None,)
    line = Line(
        number=number,
        rank=gang.rank - bounds[number],
        size=bounds[number + 1] - bounds[number],
        group=groups[number],
        device=gang.device,
        backend=gang.backend,
    )
    # NCCL asks for a collective of the whole group before the first message between two of its ranks
    dist.all_reduce(torch.ones(1, device=gang.device), group=line.group)
    return line


def cut(world_size: int) -> tuple[int, ...]:
    """The first rank of each pipeline, and the end of the last: as few as possible, of nearly the same length."""
    count = -(-world_size // LONGEST)
    return tuple(world_size * number // count for number in range(count + 1))


@functools.cache
def _groups(generation: int, bounds: tuple[int, ...]) -> tuple[dist.ProcessGroup | None, ...]:
    """Made by all ranks together, once."""
    del generation  # groups do not outlive it
    return tuple(dist.new_group(list(range(start, end))) for start, end in itertools.pairwise(bounds))
