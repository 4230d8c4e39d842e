"""The suite pipeline-schedules over gloo, in worlds of several shapes: what each of its cases comes to."""

import dataclasses
from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Verdict
from tests.support.gangs.gang import AgentGang, builtin, make_plan, outcomes, suite_of

SUITE = builtin("pipeline-schedules")
TRAINING = dataclasses.replace(SUITE, name="training", select="not test_plan")

BY_SCHEDULE = (
    "test_every_iteration_is_right[{}]",
    "test_traced_model_takes_a_keyword_argument[{}]",
    "test_gradients_of_a_traced_model[even-{}]",
    "test_gradients_of_a_traced_model[uneven-{}]",
    "test_gradients_of_a_traced_model[skipping-{}]",
    "test_gradients_of_a_model_cut_by_hand[{}]",
)
BY_RUNTIME = (
    "test_gradients_of_a_plan_of_ones_own[unbalanced-{}]",
    "test_gradients_of_a_plan_of_ones_own[v-shaped-{}]",
    "test_gradients_of_a_plan_of_ones_own[weights-split-{}]",
    "test_gradients_of_weights_that_the_model_computes_later[{}]",
)
TRAINED = {
    *(name.format(schedule) for name in BY_SCHEDULE for schedule in ("GPipe", "1F1B")),
    "test_gradients_of_a_traced_model_whose_ends_are_connected",
    "test_gradients_of_two_stages_a_rank[ScheduleInterleaved1F1B]",
    "test_gradients_of_two_stages_a_rank[ScheduleLoopedBFS]",
    "test_gradients_of_two_stages_a_rank[ScheduleInterleavedZeroBubble]",
    "test_gradients_along_a_v[ScheduleZBVZeroBubble]",
    "test_gradients_along_a_v[ScheduleDualPipeV]",
    *(name.format(runtime) for name in BY_RUNTIME for runtime in ("in-steps", "in-messages")),
}
# one of torch's two runtimes sends between two stages of one rank as well, which gloo refuses
GAPS = {
    "test_gradients_of_a_plan_of_ones_own[unbalanced-in-steps]",
    "test_gradients_of_a_plan_of_ones_own[v-shaped-in-steps]",
}
PLANS = 3 * 19 + 2 * 7

TWO_PIPELINES = """
from disttest_runner.suites.pipeline import training

training.MAX_RANKS = 2
"""


def expected(*, world_size: int) -> dict[str, Outcome]:
    if world_size == 1:
        return dict.fromkeys(TRAINED, Outcome.NOT_RUN)
    return {name: Outcome.XFAILED if name in GAPS else Outcome.PASSED for name in TRAINED}


def test_every_case_of_the_suite_on_two_nodes_of_two_ranks(tmp_path: Path) -> None:
    gang = AgentGang(make_plan(SUITE, case_seconds=60, run_seconds=300), tmp_path)
    report = gang.run(seconds=300)
    assert report.verdict is Verdict.PASSED, gang.text
    found = outcomes(report.suites[0])
    plans = {name: outcome for name, outcome in found.items() if name.startswith("test_plan[")}
    assert len(plans) == PLANS
    assert set(plans.values()) == {Outcome.PASSED}
    assert {name: found[name] for name in found.keys() - plans.keys()} == expected(world_size=4)
    messages = [case.message for case in report.suites[0].cases if case.outcome is Outcome.XFAILED]
    assert all("sends to its own rank" in message and "Pair is not connected" in message for message in messages)
    assert report.generations == 1


@pytest.mark.soak
@pytest.mark.parametrize("ranks", [2, 3])
def test_training_on_one_node(ranks: int, tmp_path: Path) -> None:
    gang = AgentGang(make_plan(TRAINING, nodes=1, ranks=ranks, case_seconds=60), tmp_path)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    assert outcomes(report.suites[0]) == expected(world_size=ranks)


@pytest.mark.soak
def test_alone_there_is_nothing_to_train_but_plans_are_looked_at(tmp_path: Path) -> None:
    some = dataclasses.replace(SUITE, select="not test_plan or 2x2x2")
    gang = AgentGang(make_plan(some, nodes=1, ranks=1), tmp_path)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    plans = {f"test_plan[Schedule{name}-2x2x2]" for name in ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")}
    assert outcomes(report.suites[0]) == expected(world_size=1) | dict.fromkeys(plans, Outcome.PASSED)


@pytest.mark.soak
def test_a_gang_that_is_too_large_for_one_pipeline_has_several(tmp_path: Path) -> None:
    """The built-in suite before it has the zygote import what it needs."""
    source = "from disttest_runner.suites.pipeline_schedules import *\n"
    several = dataclasses.replace(suite_of(tmp_path / "several", source), select="by_hand or along_a_v or two_stages")
    (tmp_path / "several" / "conftest.py").write_text(TWO_PIPELINES)
    first = dataclasses.replace(SUITE, select="by_hand and GPipe")
    gang = AgentGang(make_plan(first, several, nodes=1, ranks=4, case_seconds=60), tmp_path)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    found = outcomes(report.suites[1])
    assert len(found) == 7
    assert set(found.values()) == {Outcome.PASSED}
