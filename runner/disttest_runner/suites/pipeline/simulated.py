"""A schedule's plan without ranks: made by torch for a world of any size, then simulated by us."""

from itertools import islice
from types import SimpleNamespace
from typing import Any

from disttest_runner.suites.pipeline import plans
from disttest_runner.suites.pipeline.messages import Exchange

SHOWN = 5  # problems


def check(schedule_class: type[Any], local_stages: int, microbatches: int, ranks: int) -> None:
    stages = local_stages * ranks
    schedule = schedule_class([_stage(stages, ranks, index) for index in range(local_stages)], microbatches)
    plan = plans.read(schedule.pipeline_order)
    problems = list(islice(plans.wrong_counts(plan, stages, microbatches), SHOWN))
    with_messages = getattr(schedule, "pipeline_order_with_comms", None)
    if with_messages is not None:
        problems += islice(Exchange(plans.read(with_messages)).problems(), SHOWN)
    if with_messages is None or keeps_step(plan):  # what has no messages relies on steps
        problems += islice(plans.too_early(plan, stages - 1), SHOWN)
    assert not problems, "\n".join(problems)


def keeps_step(plan: plans.Plan) -> bool:
    """Whether the plan says when ranks wait for each other."""
    return all(None in actions for rank, actions in plan.items() if rank)


def _stage(stages: int, ranks: int, index: int) -> Any:
    """As much of a stage as plans are made from. Which ones are our own does not matter to them."""
    return SimpleNamespace(
        group=None,
        group_rank=0,
        group_size=ranks,
        has_backward=False,
        is_first=False,
        is_last=False,
        num_stages=stages,
        stage_index=index,
        stage_index_to_group_rank={},
        submod=None,
    )
