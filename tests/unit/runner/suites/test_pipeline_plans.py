"""Plans of pipelines: what is wrong with one is found, and our own are right for any number of ranks."""

from collections.abc import Callable

import pytest

from disttest_runner.suites.pipeline import plans
from disttest_runner.suites.pipeline.plans import Action, ActionKind, Exchange, Plan

STAGES = MICROBATCHES = 2


def plan_of(*rows: str) -> dict[int, list[Action | None]]:
    """One row for each rank, as in a file of torch's; a dot is a step without an action."""
    return {rank: [action_of(word) for word in row.split()] for rank, row in enumerate(rows)}


def action_of(word: str) -> Action | None:
    if word == ".":
        return None
    stage, rest = int(word[0]), word[1:]
    return Action(ActionKind(rest.rstrip("0123456789")), stage, int(rest.lstrip("_BEFIRNSVWCD")))


def test_a_plan_that_is_right_has_no_problems() -> None:
    good = plan_of("0F0 0F1 . 0B0 . 0B1", ". 1F0 1B0 1F1 1B1")
    assert list(plans.wrong_counts(good, STAGES, MICROBATCHES)) == []
    assert list(plans.too_early(good, STAGES - 1)) == []


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (plan_of("0F0 0B0 0B1", "1F0 1B0 1F1 1B1"), "stage 0 runs microbatch 1 so: 0 x F, 1 x B, 0 x I, 0 x W"),
        (plan_of("0F0 0F1 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"), "stage 0 runs microbatch 1 so: 2 x F"),
        (plan_of("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1I1"), "stage 1 runs microbatch 1 so: 1 x F, 0 x B, 1 x I, 0 x W"),
        (plan_of("0F0 0F1 0B0 0B1 1B1", "1F0 1B0 1F1"), "stage 1 is run by ranks [0, 1]"),
        (plan_of("0F0 0F1 0B0 0B1 0F2", "1F0 1B0 1F1 1B1"), "0F2 has no place in 2 stages and 2 microbatches"),
        (plan_of("0F0 0F1 0B0 0B1", ""), "stage 1 is run by ranks []"),
    ],
    ids=["forward-missing", "forward-twice", "weights-missing", "two-ranks", "too-many", "no-rank"],
)
def test_what_is_not_run_exactly_once_is_found(plan: Plan, problem: str) -> None:
    assert any(found.startswith(problem) for found in plans.wrong_counts(plan, STAGES, MICROBATCHES))


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (plan_of("0F0", "1F0"), "at step 0 1F0 runs"),
        (plan_of("0F0 0B0", ". 1F0 1B0"), "at step 1 0B0 runs"),
        (plan_of("0F0", ". 1B0"), "at step 1 1B0 runs"),
        (plan_of("0F0", ". 1F0 1W0 1I0"), "at step 2 1W0 runs"),
    ],
    ids=["forward", "backward", "without-forward", "weights"],
)
def test_what_runs_before_its_input_is_there_is_found(plan: Plan, problem: str) -> None:
    (found,) = plans.too_early(plan, STAGES - 1)
    assert found.startswith(problem)


SENDS = "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1"


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        ((SENDS, "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1"), []),
        (
            (SENDS, "1RECV_F1 1F1 1RECV_F0 1F0 1B0 1SEND_B0 1B1 1SEND_B1"),
            [
                "message 0 from rank 0 to rank 1 is for 1RECV_F0, but is taken for 1RECV_F1",
                "message 1 from rank 0 to rank 1 is for 1RECV_F1, but is taken for 1RECV_F0",
            ],
        ),
        (
            (SENDS, "1RECV_F0 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1"),
            [
                "rank 0 can never run 0B0",
                "rank 0 sends 2 messages to rank 1, which expects 1",
                "rank 1 can never run 1F1",
                "rank 1 sends 0 messages to rank 0, which expects 1",
            ],
        ),
        (
            ("0RECV_B0 0F0 0B0 0SEND_F0", "1RECV_F0 1F0 1B0 1SEND_B0"),
            [
                "rank 0 can never run 0B0",
                "rank 0 sends 0 messages to rank 1, which expects 1",
                "rank 1 can never run 1F0",
                "rank 1 sends 0 messages to rank 0, which expects 1",
            ],
        ),
    ],
    ids=["right", "mixed-up", "not-received", "deadlock"],
)
def test_messages_that_do_not_arrive_where_they_belong_are_found(rows: tuple[str, ...], problems: list[str]) -> None:
    assert sorted(Exchange(plan_of(*rows)).problems()) == problems


@pytest.mark.parametrize("ranks", [2, 3, 5, 16])
@pytest.mark.parametrize("splits_backward", [False, True], ids=["whole", "split"])
@pytest.mark.parametrize("shape", [plans.unbalanced, plans.v_shaped, plans.looped])
def test_our_own_plans_are_right(shape: Callable[[int], list[int]], ranks: int, *, splits_backward: bool) -> None:
    rank_of = shape(ranks)
    plan = plans.own_plan(rank_of, 2 * ranks, splits_backward=splits_backward)
    assert list(plans.wrong_counts(plan, len(rank_of), 2 * ranks)) == []
    assert list(plans.too_early(plan, len(rank_of) - 1)) == []
    assert plans.holders(plan) == dict(enumerate(rank_of))
    assert len({len(actions) for actions in plan.values()}) == 1
