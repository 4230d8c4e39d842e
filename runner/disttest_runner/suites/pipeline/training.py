"""One rank's part of a training through a pipeline, compared with the whole model on the whole batch.

The reference needs no communication: each rank draws all data from the same seeds and has the whole model. Problems are
collected and raised at the end, so that no rank leaves the others waiting.
"""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from disttest_runner.process_group import device
from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.pipeline.models import DIM
from disttest_runner.suites.reference import descend

MAX_RANKS = 16  # of one pipeline: plans grow with the square of it
ROWS = 2  # of a microbatch
ITERATIONS = 3
STEP = 1e-3
RELATIVE, ABSOLUTE = 1e-5, 4e-5  # tolerances of gradients
VISIBLE = 100 * ABSOLUTE  # lower bound of the largest element of each gradient, so that errors are noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGroup:
    number: int
    rank: int  # in this pipeline
    size: int
    group: dist.ProcessGroup | None  # None: all ranks of the gang
    device: torch.device
    uses_gloo: bool

    @property
    def microbatches(self) -> int:
        """Enough for every schedule: some need one for each stage, and a rank has up to two."""
        return 2 * self.size


def join_pipeline(gang: Gang) -> PipelineGroup:
    """Return this rank's pipeline; skip the case in a world of one rank."""
    if gang.world_size == 1:
        pytest.skip("not run: a pipeline needs two ranks")
    bounds = pipeline_bounds(gang.world_size)
    number = next(number for number, end in enumerate(bounds[1:]) if gang.rank < end)
    groups = _groups(gang.generation, bounds) if len(bounds) > 2 else (None,)
    line = PipelineGroup(
        number=number,
        rank=gang.rank - bounds[number],
        size=bounds[number + 1] - bounds[number],
        group=groups[number],
        device=gang.device,
        uses_gloo=device.of_backend(gang.backend).uses_gloo,
    )
    # NCCL requires a collective of the whole group before the first message between two ranks
    dist.all_reduce(torch.ones(1, device=gang.device), group=line.group)
    return line


def pipeline_bounds(world_size: int) -> tuple[int, ...]:
    """Return the first rank of each pipeline and the end of the last: few pipelines of nearly the same length."""
    count = -(-world_size // MAX_RANKS)
    return tuple(world_size * number // count for number in range(count + 1))


@functools.cache
def _groups(generation: int, bounds: tuple[int, ...]) -> tuple[dist.ProcessGroup | None, ...]:
    del generation  # a key of the cache: groups do not outlive it
    return tuple(dist.new_group(list(range(start, end))) for start, end in itertools.pairwise(bounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStages:
    schedule: Any  # torch's
    stages: Mapping[int, nn.Module]
    last_stage: int
    names: Mapping[nn.Parameter, str]  # of the parameters of its stages, in the whole model
    reference: nn.Module


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Sum, so that the losses of the microbatches add up to that of the whole batch."""
    return torch.nn.functional.mse_loss(output, target, reduction="sum")


def draw(iteration: int, line: PipelineGroup) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw input, target and weight, which differ in each iteration, microbatch and pipeline."""
    generator = torch.Generator().manual_seed(1000 * (iteration + 1) + line.number)
    shape = (3, ROWS * line.microbatches, DIM)
    one, two, three = torch.randn(shape, generator=generator, dtype=torch.float64).to(line.device)
    return one, two, three


def train(part: RankStages, line: PipelineGroup, *, iterations: int = ITERATIONS, has_weight: bool = False) -> None:
    problems: list[str] = []
    for iteration in range(iterations):
        batch, target, weight = draw(iteration, line)
        named = {"weight": weight} if has_weight else {}
        output, losses = _step(part, batch, target, named)
        # after the step: otherwise freed memory that receives messages could already contain the right values
        expected = part.reference(batch, **named)
        expected_loss = loss_of(expected, target)
        expected_loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        found = _compare_gradients(part)
        if part.last_stage in part.stages:
            found += _compare("the output", output, expected)
            found += _compare("the sum of the losses", sum(losses), expected_loss)
        problems += [f"iteration {iteration}: {problem}" for problem in found]
        descend((*part.names, *part.reference.parameters()), STEP)
    if problems:
        raise AssertionError("\n".join(problems))


def _step(
    part: RankStages, batch: torch.Tensor, target: torch.Tensor, named: Mapping[str, torch.Tensor]
) -> tuple[Any, list[torch.Tensor]]:
    losses: list[torch.Tensor] = []
    inputs: tuple[torch.Tensor, ...] = ()
    options: dict[str, Any] = {}
    if 0 in part.stages:
        inputs, options = (batch,), dict(named)
    if part.last_stage in part.stages:
        options |= {"target": target, "losses": losses}
    return part.schedule.step(*inputs, **options), losses


def _compare_gradients(part: RankStages) -> list[str]:
    problems = []
    for mine, name in part.names.items():
        expected = part.reference.get_parameter(name).grad
        if expected is None or expected.abs().max() < VISIBLE:
            problems.append(f"the reference's gradient of {name} is too small to be compared with")
        else:
            problems += _compare(f"the gradient of {name}", mine.grad, expected)
    return problems


def _compare(what: str, mine: Any, expected: torch.Tensor) -> list[str]:
    try:
        torch.testing.assert_close(mine, expected, rtol=RELATIVE, atol=ABSOLUTE)
    except (AssertionError, TypeError) as error:  # not a tensor
        return [f"{what}: {' '.join(str(error).split())}"]
    return []
