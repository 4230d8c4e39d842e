"""Does training through a pipeline give what the whole model gives on one rank?

Each rank has one stage or two, microbatches pass through them in the order of the schedule, and output, losses and all
gradients are compared with those of the whole model on the whole batch in each iteration. Plans of schedules, for other
worlds too, are simulated by rank 0 alone.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import ProcessGroup, pipelining
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, _PipelineScheduleRuntime

from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.pipeline import models, plans
from disttest_runner.suites.pipeline.stages import build_planned_schedule, build_schedule, cut_by_hand, trace_stages
from disttest_runner.suites.pipeline.training import PipelineGroup, join_pipeline, train

MANY = 10  # iterations

ONE_STAGE = pytest.mark.parametrize(
    "schedule", [pipelining.ScheduleGPipe, pipelining.Schedule1F1B], ids=["GPipe", "1F1B"]
)
LOOPED = ["ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble"]
V_SHAPED = ["ScheduleZBVZeroBubble", "ScheduleDualPipeV"]

# local stages, microbatches, ranks
LOOPED_TRIPLES = [
    *[(2, 2, 2), (2, 4, 4), (2, 8, 2), (2, 8, 4), (2, 8, 8), (4, 4, 4), (4, 8, 4), (4, 8, 8)],  # few stages
    *[(4, 16, 4), (4, 32, 4), (4, 64, 4)],  # many microbatches
    *[(4, 16, 16), (4, 32, 32), (4, 128, 64)],  # many ranks
    *[(3, 2, 2), (3, 8, 2), (3, 12, 4)],  # an odd number of stages
    *[(4, 6, 3), (4, 10, 5)],  # an odd number of ranks
]
V_SHAPED_TRIPLES = [(2, 4, 2), (2, 8, 2), (2, 8, 4), (2, 10, 5), (2, 16, 4), (2, 16, 8), (2, 64, 16)]


@pytest.fixture
def line(gang: Gang, process_group: ProcessGroup) -> PipelineGroup:
    del process_group  # it must exist
    return join_pipeline(gang)


def named(name: str) -> type[Any]:
    """Return a schedule that some versions of torch lack."""
    found: type[Any] | None = getattr(schedules, name, None)
    if found is None:
        pytest.skip(f"not run: torch {torch.__version__} has no {name}")
    return found


@ONE_STAGE
def test_every_iteration_is_right(line: PipelineGroup, schedule: type[Any]) -> None:
    part = trace_stages(models.Chain, models.evenly(line.size), schedule, line)
    train(part, line, iterations=MANY)


@ONE_STAGE
def test_traced_model_takes_a_keyword_argument(line: PipelineGroup, schedule: type[Any]) -> None:
    part = trace_stages(models.Weighing, models.evenly(line.size), schedule, line, has_weight=True)
    train(part, line, has_weight=True)


@ONE_STAGE
@pytest.mark.parametrize(
    ("model", "layers"),
    [(models.Chain, models.evenly), (models.Chain, models.unevenly), (models.skipping_one, models.evenly)],
    ids=["even", "uneven", "skipping"],
)
def test_gradients_of_a_traced_model(
    line: PipelineGroup, schedule: type[Any], model: Callable[[int], nn.Module], layers: Callable[[int], list[int]]
) -> None:
    train(trace_stages(model, layers(line.size), schedule, line), line)


def test_gradients_of_a_traced_model_whose_ends_are_connected(line: PipelineGroup) -> None:
    """Not with 1F1B, which does not support it: it waits forever if two or more stages are skipped."""
    train(trace_stages(models.skipping_all, models.evenly(line.size), pipelining.ScheduleGPipe, line), line)


@ONE_STAGE
def test_gradients_of_a_model_cut_by_hand(line: PipelineGroup, schedule: type[Any]) -> None:
    """Torch infers the shapes."""
    stages, make = range(line.size), lambda stages: build_schedule(schedule, stages[0], line)
    train(cut_by_hand(stages, line, make, passes_shapes=False), line)


@pytest.mark.parametrize("name", LOOPED)
def test_gradients_of_two_stages_a_rank(line: PipelineGroup, name: str) -> None:
    schedule = named(name)
    part = cut_by_hand(plans.looped(line.size), line, lambda stages: build_schedule(schedule, stages, line))
    train(part, line)


@pytest.mark.parametrize("name", V_SHAPED)
def test_gradients_along_a_v(line: PipelineGroup, name: str) -> None:
    schedule, rank_of = named(name), plans.v_shaped(line.size)
    train(cut_by_hand(rank_of, line, lambda stages: build_schedule(schedule, stages, line)), line)


@pytest.mark.parametrize("runtime", [PipelineScheduleMulti, _PipelineScheduleRuntime], ids=["in-steps", "in-messages"])
@pytest.mark.parametrize(
    ("shape", "splits_backward"),
    [(plans.unbalanced, False), (plans.v_shaped, False), (plans.looped, True)],
    ids=["unbalanced", "v-shaped", "weights-split"],
)
def test_gradients_of_a_plan_of_ones_own(
    line: PipelineGroup, runtime: type[Any], shape: Callable[[int], list[int]], *, splits_backward: bool
) -> None:
    rank_of = shape(line.size)
    plan = plans.own_plan(rank_of, line.microbatches, splits_backward=splits_backward)
    train(cut_by_hand(rank_of, line, lambda stages: build_planned_schedule(runtime, plan, stages, line)), line)


@pytest.mark.parametrize("runtime", [PipelineScheduleMulti, _PipelineScheduleRuntime], ids=["in-steps", "in-messages"])
def test_gradients_of_weights_that_the_model_computes_later(line: PipelineGroup, runtime: type[Any]) -> None:
    rank_of = plans.looped(line.size)
    plan = plans.own_plan(rank_of, line.microbatches, splits_backward=True)
    part = cut_by_hand(
        rank_of, line, lambda stages: build_planned_schedule(runtime, plan, stages, line), models.LateBlock
    )
    train(part, line)


@pytest.mark.parametrize(
    ("name", "triple"),
    [
        *((name, triple) for name in LOOPED for triple in LOOPED_TRIPLES),
        *((name, triple) for name in V_SHAPED for triple in V_SHAPED_TRIPLES),
    ],
    ids=lambda value: value if isinstance(value, str) else "x".join(map(str, value)),
)
def test_plan(gang: Gang, name: str, triple: tuple[int, int, int]) -> None:
    schedule = named(name)
    if gang.rank:
        pytest.skip("idle: only rank 0 checks plans")
    plans.check_schedule(schedule, *triple)
