"""What a suite of training compares with: the whole model on the batches of all ranks, computed by each rank alone.

No rank's expected value depends on communication. Every rank draws its own data (seed + rank), anew in each step, so a
contribution that is missing, scaled or old shows. Everything is float64 where a case does not ask for less, so that
only a wrong value differs.
"""

import copy
from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from disttest_runner.process_group.gang import Gang

SEED = 42
STEP_SEEDS = 100_003  # further apart than ranks are many
RELATIVE, ABSOLUTE = 1e-7, 1e-9  # tolerances in float64


def alike(
    build: Callable[[], nn.Module], gang: Gang, copies: int = 2, dtype: torch.dtype = torch.float64
) -> list[nn.Module]:
    """The same model several times, and the same on every rank."""
    torch.manual_seed(SEED)
    first = build().to(device=gang.device, dtype=dtype)
    return [first, *(copy.deepcopy(first) for _ in range(copies - 1))]


def batches(
    gang: Gang, step: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float64, *, parts: int = 0
) -> list[torch.Tensor]:
    """The batch of each rank, or of each of fewer parts of the gang, drawn alike by all of them."""
    drawn = []
    for part in range(parts or gang.world_size):
        generator = torch.Generator().manual_seed(STEP_SEEDS * (step + 1) + part)
        drawn.append(torch.rand(shape, generator=generator, dtype=dtype).to(gang.device))
    return drawn


def same(
    what: str, mine: torch.Tensor, expected: torch.Tensor, *, relative: float = RELATIVE, absolute: float = ABSOLUTE
) -> None:
    torch.testing.assert_close(mine, expected, rtol=relative, atol=absolute, msg=lambda text: f"{what}: {text}")


def my_shard(whole: torch.Tensor, gang: Gang) -> torch.Tensor:
    """What is kept on this rank of a parameter sharded by its first dimension: a part of it, or nothing."""
    parts = torch.chunk(whole, gang.world_size)
    return parts[gang.rank] if gang.rank < len(parts) else whole[:0]


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of a sharded tensor."""
    assert isinstance(tensor, DTensor), "a parameter or gradient is not sharded"
    return tensor.to_local()


def average(model: nn.Module, parts: int) -> None:
    """The reference saw all batches at once and added them up; data parallelism averages over its parts."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(parts)
