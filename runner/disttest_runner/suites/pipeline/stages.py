"""Cuts a model into the stages of each rank, by torch's tracer or by hand, and builds schedules for them."""

import csv
import itertools
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import HashStore  # type: ignore[attr-defined]  # exported when run
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, SplitPoint, pipeline, schedules
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from disttest_runner.suites.pipeline import models, plans
from disttest_runner.suites.pipeline.training import ROWS, PipelineGroup, RankStages, draw, loss_of
from disttest_runner.suites.reference import alike


def expect_messages_to_oneself(schedule: Any, line: PipelineGroup, rank_of: Sequence[int]) -> None:
    """Torch's older runtime sends messages between two stages of one rank, which gloo cannot."""
    neighbours = any(one == other for one, other in itertools.pairwise(rank_of))
    if not line.uses_gloo or isinstance(schedule, _PipelineScheduleRuntime) or not neighbours:
        return
    group: Any = dist.ProcessGroupGloo(HashStore(), 0, 1, timedelta(seconds=30))
    try:
        works = [group.send([torch.ones(1)], 0, 0), group.recv([torch.zeros(1)], 0, 0)]
        for work in works:
            work.wait()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        pytest.xfail(f"{type(schedule).__name__} sends to its own rank, which gloo refuses: {reason}")


def expect_lost_messages(schedule: Any, line: PipelineGroup, *, are_several: bool = False) -> None:
    """Older schedules wait for the last of several messages only; gloo drops the others, and ranks hang."""
    is_alone = isinstance(schedule, (ScheduleGPipe, _PipelineScheduleRuntime)) and not are_several
    if not line.uses_gloo or is_alone:
        return
    works = ["one", "two"]
    messages: Any = [SimpleNamespace(op=work) for work in works]
    with mock.patch.object(dist, "batch_isend_irecv", return_value=list(works)):
        waited_for: object = schedules._batch_p2p(messages)  # noqa: SLF001 - the function that waits
    if waited_for != works:
        pytest.xfail(
            f"of several messages {type(schedule).__name__} of torch {torch.__version__} waits for the last one only, "
            "and gloo drops the others"
        )


def trace_stages(
    build: Callable[[int], nn.Module],
    layers: Sequence[int],
    schedule_class: type[Any],
    line: PipelineGroup,
    *,
    has_weight: bool = False,
) -> RankStages:
    """Cut a model by torch's tracer, one stage on each rank."""
    model, reference = alike(lambda: build(sum(layers)), line.device)
    batch, _, weight = (tensor[:ROWS] for tensor in draw(0, line))
    pipe = pipeline(
        model,
        mb_args=(batch,),
        mb_kwargs={"weight": weight} if has_weight else None,
        split_spec=dict.fromkeys(models.cuts(layers), SplitPoint.BEGINNING),
    )
    assert pipe.num_stages == line.size
    module = pipe.get_stage_module(line.rank)
    schedule = build_schedule(schedule_class, pipe.build_stage(line.rank, line.device, line.group), line)
    expect_lost_messages(schedule, line, are_several=isinstance(reference, models.Skipping))
    return RankStages(
        schedule=schedule,
        stages={line.rank: module},
        last_stage=line.size - 1,
        names={parameter: name for name, parameter in module.named_parameters()},
        reference=reference,
    )


def cut_by_hand(
    rank_of: Sequence[int],
    line: PipelineGroup,
    make_schedule: Callable[[list[Any]], Any],
    block: Callable[[], nn.Module] = models.Block,
    *,
    passes_shapes: bool = True,
) -> RankStages:
    """Cut a model with one layer in each stage, stage s on rank `rank_of[s]`.

    Torch infers shapes by messages, unless they are passed.
    """

    def build() -> nn.Module:
        chain = models.Chain(0)
        chain.layers.extend(block() for _ in rank_of)
        return chain

    model, reference = alike(build, line.device)
    modules = {stage: model.get_submodule(f"layers.{stage}") for stage, rank in enumerate(rank_of) if rank == line.rank}
    stages = []
    for stage, module in modules.items():
        finish = None
        if isinstance(module, models.LateBlock):
            module.is_late, finish = True, module.take_weight_gradient
        shapes: dict[str, Any] = {}
        if passes_shapes:
            shapes = {
                "input_args": _example_microbatch(line, trains=stage > 0),
                "output_args": _example_microbatch(line),
            }
        stages.append(
            PipelineStage(module, stage, len(rank_of), line.device, group=line.group, dw_builder=finish, **shapes)
        )
    names = {parameter: name for name, parameter in model.named_parameters()}
    schedule = make_schedule(stages)
    expect_messages_to_oneself(schedule, line, rank_of)
    expect_lost_messages(schedule, line)
    return RankStages(
        schedule=schedule,
        stages=modules,
        last_stage=len(rank_of) - 1,
        names={parameter: names[parameter] for module in modules.values() for parameter in module.parameters()},
        reference=reference,
    )


def _example_microbatch(line: PipelineGroup, *, trains: bool = True) -> torch.Tensor:
    shape = (ROWS, models.DIM)
    return torch.empty(shape, dtype=torch.float64, device=line.device, requires_grad=trains)


def build_schedule(schedule_class: type[Any], stages: Any, line: PipelineGroup) -> Any:
    return schedule_class(stages, line.microbatches, loss_fn=loss_of, scale_grads=False)


def build_planned_schedule(schedule_class: type[Any], plan: plans.Plan, stages: list[Any], line: PipelineGroup) -> Any:
    """Build a schedule that follows our plan; all versions of torch can read one from a file."""
    schedule = build_schedule(schedule_class, stages, line)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.csv"
        with file.open("w", newline="") as stream:
            csv.writer(stream).writerows(plans.write(plan))
        schedule._load_csv(str(file))  # noqa: SLF001 - there is no public way to run a custom plan
    return schedule
