"""The reference of training suites: the whole model on the batches of all ranks, computed by each rank alone.

Expected values need no communication. Every rank draws its own data (seed + rank), new in each step, so a missing,
scaled or stale contribution changes the result. The default is float64, so that rounding hides no error.
"""

import copy
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from disttest_runner.process_group.gang import Gang

SEED = 42
STEP_SEEDS = 100_003  # more than there are ranks
RELATIVE, ABSOLUTE = 1e-7, 1e-9  # tolerances in float64
Model = TypeVar("Model", bound=nn.Module)


def alike(
    build: Callable[[], Model], device: torch.device, copies: int = 2, dtype: torch.dtype = torch.float64
) -> list[Model]:
    """Build equal copies of a model, equal on every rank too."""
    torch.manual_seed(SEED)
    first = build().to(device=device, dtype=dtype)
    return [first, *(copy.deepcopy(first) for _ in range(copies - 1))]


def batches(
    gang: Gang, step: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float64, *, parts: int = 0
) -> list[torch.Tensor]:
    """Draw the batch of each rank, or of each of `parts` of the gang; all ranks draw the same."""
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
    """Return this rank's shard of a parameter sharded by its first dimension; it can be empty."""
    parts = torch.chunk(whole, gang.world_size)
    return parts[gang.rank] if gang.rank < len(parts) else whole[:0]


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    assert isinstance(tensor, DTensor), "a parameter or gradient is not sharded"
    return tensor.to_local()


def average(model: nn.Module, parts: int) -> None:
    """Divide the reference's gradients, which are sums over all batches; data parallelism averages."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(parts)


@torch.no_grad()
def descend(parameters: Iterable[nn.Parameter], step: float) -> None:
    """Step by hand: an optimizer imports the compiler, which takes seconds."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.sub_(parameter.grad, alpha=step)
            parameter.grad = None
