"""The contributions of ranks to collectives, and the comparison with expected results.

A contribution depends on rank, position and turn, so a rank that is missing, counted twice or shifted changes the
result, as does a result of an earlier turn. Each rank computes the expected value alone.
"""

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]  # exported when run

from disttest_runner.process_group import device
from disttest_runner.process_group.gang import Gang

# Sums stay below 256, so that they are exact in bfloat16 and fit into a byte: in a large world each position has
# contributions of every `stride`th rank only. Each rank contributes somewhere.
CONTRIBUTORS = 32
DIGIT = 6  # values are 1 + turn + a digit below it
POWERS = (1, 6, 36, 216, 1296)  # five positions in a row distinguish 7,776 ranks
TURNS = (0, 1)  # the second adds one to every contribution, which changes every sum
UNTOUCHED = 99  # no contribution has this value
SLICE = 1 << 20  # elements that are computed at once, in several tensors of eight bytes each

Part = Callable[[int, int], torch.Tensor]  # (count, offset) -> the elements there
Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Call = Callable[[Any, torch.Tensor, torch.Tensor], Any]  # (group, two tensors of one element) -> work


def stride(gang: Gang) -> int:
    return -(-gang.world_size // CONTRIBUTORS)


def value(rank: int | torch.Tensor, where: torch.Tensor, turn: int, step: int) -> torch.Tensor:
    """Return the contribution of a rank, or of a tensor of ranks, at these positions."""
    digit = rank // torch.tensor(POWERS, device=where.device)[where % len(POWERS)]
    return torch.where((rank + where) % step == 0, 1 + turn + (digit + where + where // 31) % DIGIT, 0)


def positions(count: int, gang: Gang, offset: int = 0) -> torch.Tensor:
    return torch.arange(offset, offset + count, device=gang.device)


def contribution(
    rank: int, count: int, gang: Gang, dtype: torch.dtype, *, offset: int = 0, turn: int = 0
) -> torch.Tensor:
    whole = torch.empty(count, dtype=dtype, device=gang.device)
    for part in torch.split(whole, SLICE):
        part.copy_(value(rank, positions(len(part), gang, offset), turn, stride(gang)))
        offset += len(part)
    return whole


def combined(gang: Gang, combine: Combine, where: torch.Tensor, turn: int) -> torch.Tensor:
    """Combine the contributions of all ranks, in at most 32 steps: the other ranks contribute zero."""
    step = stride(gang)
    result = torch.zeros_like(where)
    for first in range(0, gang.world_size, step):
        rank = first + (-where) % step
        result = combine(result, torch.where(rank < gang.world_size, value(rank, where, turn, step), 0))
    return result


def total(count: int, gang: Gang, dtype: torch.dtype, *, offset: int = 0, turn: int = 0) -> torch.Tensor:
    return combined(gang, torch.add, positions(count, gang, offset), turn).to(dtype)


def untouched(count: int, gang: Gang, dtype: torch.dtype) -> torch.Tensor:
    """Return a buffer in which missing writes are noticed."""
    return torch.full((count,), UNTOUCHED, device=gang.device, dtype=torch.float32).to(dtype)


def count_wrong(got: torch.Tensor, expected: Part) -> tuple[int, str]:
    """Compare exactly, slice by slice; return the number of wrong elements and a sentence about the first."""
    wrong, first = 0, ""
    for offset in range(0, len(got), SLICE):
        part = got[offset : offset + SLICE].double()
        right = expected(len(part), offset).double()
        places = torch.nonzero(part != right).flatten()
        if len(places) and not wrong:
            at = int(places[0])
            first = f"the first at {offset + at}: {part[at].item():g} instead of {right[at].item():g}"
        wrong += len(places)
    return wrong, f"{wrong} of {len(got)} elements are wrong; {first}" if wrong else ""


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert len(got) == len(expected), f"{len(got)} elements instead of {len(expected)}"
    wrong, message = count_wrong(got, lambda count, offset: expected[offset : offset + count])
    if wrong:
        pytest.fail(message)


@functools.cache
def group_of_one() -> Any:
    """Return a gloo group of this rank alone, to test what gloo supports."""
    return dist.ProcessGroupGloo(HashStore(), 0, 1, timedelta(seconds=30))


def expect_gap(gang: Gang, dtype: torch.dtype, call: Call | None) -> None:
    """Expect a failure if gloo refuses the type for the collective, which is tried in a group of one."""
    if call is None or not device.of_backend(gang.backend).uses_gloo:
        return
    one, two = (torch.zeros(1, device=gang.device).to(dtype) for _ in range(2))
    try:
        call(group_of_one(), one, two).wait()
    except (RuntimeError, ValueError) as error:
        pytest.xfail(f"gloo of torch {torch.__version__} refuses {names(dtype)} here: {str(error).splitlines()[0]}")


def names(thing: object) -> str:
    return str(thing).removeprefix("torch.")
