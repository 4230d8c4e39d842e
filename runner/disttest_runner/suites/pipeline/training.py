"""One rank's part of a training through a pipeline, compared with the whole model on the whole batch.

Nothing of the reference is communicated: each rank draws all data from the same seeds and keeps the whole model. What
is wrong is gathered and told at the end, so that no rank leaves the others waiting.
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

from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.pipeline.models import DIM

LONGEST = 16  # ranks of one pipeline: plans grow with the square of it


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGroup:
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


def join_line(gang: Gang) -> PipelineGroup:
    """Skips the case where there is nobody to pass anything to."""
    if gang.world_size == 1:
        pytest.skip("not run: a pipeline needs two ranks")
    bounds = cut(gang.world_size)
    number = next(number for number, end in enumerate(bounds[1:]) if gang.rank < end)
    groups = _groups(gang.generation, bounds) if len(bounds) > 2 else (None,)
    line = PipelineGroup(
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


ROWS = 2  # of a microbatch
ITERATIONS = 3
STEP = 1e-3
RELATIVE, ABSOLUTE = 1e-5, 4e-5  # tolerances of gradients
VISIBLE = 100 * ABSOLUTE  # the largest element of each gradient is above it, or the comparison would see nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStages:
    """What this rank runs of the model."""

    schedule: Any  # torch's
    stages: Mapping[int, nn.Module]
    last_stage: int
    names: Mapping[nn.Parameter, str]  # of the parameters of its stages, in the whole model
    reference: nn.Module


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A sum: that of the microbatches' losses is that of the whole batch."""
    return torch.nn.functional.mse_loss(output, target, reduction="sum")


def draw(iteration: int, line: PipelineGroup) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Input, target and weight: other ones in each iteration, microbatch and pipeline."""
    generator = torch.Generator().manual_seed(1000 * (iteration + 1) + line.number)
    shape = (3, ROWS * line.microbatches, DIM)
    one, two, three = torch.randn(shape, generator=generator, dtype=torch.float64).to(line.device)
    return one, two, three


def train(part: RankStages, line: PipelineGroup, *, iterations: int = ITERATIONS, weighs: bool = False) -> None:
    """Some iterations, each with other data and from the parameters that the one before has left."""
    problems: list[str] = []
    for iteration in range(iterations):
        batch, target, weight = draw(iteration, line)
        named = {"weight": weight} if weighs else {}
        output, losses = _step(part, batch, target, named)
        # only now: or memory that was freed and is received into again would hold the right values already
        part.reference.zero_grad()
        expected = part.reference(batch, **named)
        expected_loss = loss_of(expected, target)
        expected_loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        found = _compare_gradients(part)
        if part.last_stage in part.stages:
            found += _compare("the output", output, expected)
            found += _compare("the sum of the losses", sum(losses), expected_loss)
        problems += [f"iteration {iteration}: {problem}" for problem in found]
        _descend(part)
    if problems:
        raise AssertionError("\n".join(problems))


def _step(
    part: RankStages, batch: torch.Tensor, target: torch.Tensor, named: Mapping[str, torch.Tensor]
) -> tuple[Any, list[torch.Tensor]]:
    losses: list[torch.Tensor] = []
    inputs: tuple[torch.Tensor, ...] = ()
    options: dict[str, Any] = {}
    for stage in part.stages.values():
        stage.zero_grad()
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
    except (AssertionError, TypeError) as error:  # it is something else than a tensor
        return [f"{what}: {' '.join(str(error).split())}"]
    return []


@torch.no_grad()
def _descend(part: RankStages) -> None:
    """The same step on both sides."""
    for parameter in (*part.names, *part.reference.parameters()):
        if parameter.grad is not None:
            parameter.sub_(parameter.grad, alpha=STEP)
