"""Plans of pipelines: which rank runs which stage on which microbatch, and in which order. Pure; knows no torch.

A plan is simulated, not believed: a wrong one would send tensors of the right shape to the wrong place.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any, NamedTuple

from disttest_runner.compat import override


class ActionKind(StrEnum):
    FORWARD = "F"
    BACKWARD = "B"  # for input and weights at once
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    SEND_FORWARD = "SEND_F"
    RECEIVE_FORWARD = "RECV_F"
    SEND_BACKWARD = "SEND_B"
    RECEIVE_BACKWARD = "RECV_B"


class Action(NamedTuple):
    kind: ActionKind
    stage: int
    microbatch: int

    @override
    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


Plan = Mapping[int, Sequence[Action | None]]  # rank -> what it does, step by step; None = it waits for a step

COMPUTED = (ActionKind.FORWARD, ActionKind.BACKWARD, ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT)
GIVE_GRADIENTS = (ActionKind.BACKWARD, ActionKind.BACKWARD_INPUT)

# Torch's names; those of None have to do with sharded parameters and with the division of gradients.
KINDS: Mapping[str, ActionKind | None] = {
    "FORWARD": ActionKind.FORWARD,
    "FULL_BACKWARD": ActionKind.BACKWARD,
    "BACKWARD_INPUT": ActionKind.BACKWARD_INPUT,
    "BACKWARD_WEIGHT": ActionKind.BACKWARD_WEIGHT,
    "SEND_F": ActionKind.SEND_FORWARD,
    "RECV_F": ActionKind.RECEIVE_FORWARD,
    "SEND_B": ActionKind.SEND_BACKWARD,
    "RECV_B": ActionKind.RECEIVE_BACKWARD,
    "UNSHARD": None,
    "RESHARD": None,
    "REDUCE_GRAD": None,
}


def read(order: Mapping[int, Iterable[Any]]) -> dict[int, list[Action | None]]:
    """Torch's plan in our words. Actions that overlap are told one after the other."""
    plan: dict[int, list[Action | None]] = {}
    for rank, actions in order.items():
        plan[rank] = []
        for action in actions:
            parts = (action,) if action is None else getattr(action, "sub_actions", None) or (action,)
            for part in parts:
                kind = None if part is None else KINDS[part.computation_type.name]
                if part is None:
                    plan[rank].append(None)
                elif kind is not None:
                    plan[rank].append(Action(kind, part.stage_index, part.microbatch_index))
    return plan


def write(plan: Plan) -> list[list[str]]:
    """Rows as torch reads them from a file, a rank in each."""
    return [[str(action or "") for action in plan[rank]] for rank in sorted(plan)]


def holders(plan: Plan) -> dict[int, int]:
    """Stage -> the rank that runs it."""
    return {action.stage: rank for rank, actions in plan.items() for action in actions if action}


def wrong_counts(plan: Plan, stages: int, microbatches: int) -> Iterator[str]:
    """Each stage, on one rank, has one forward of each microbatch, and one backward: whole, or input and weights."""
    counts: Counter[Action] = Counter()
    places: dict[int, set[int]] = defaultdict(set)
    for rank, actions in plan.items():
        for action in actions:
            if action:
                counts[action] += 1
                places[action.stage].add(rank)
    for stage in range(stages):
        if len(places[stage]) != 1:
            yield f"stage {stage} is run by ranks {sorted(places[stage])}"
        for microbatch in range(microbatches):
            found = [counts.pop(Action(kind, stage, microbatch), 0) for kind in COMPUTED]
            if found not in ([1, 1, 0, 0], [1, 0, 1, 1]):
                named = ", ".join(f"{count} x {kind}" for count, kind in zip(found, COMPUTED, strict=True))
                yield f"stage {stage} runs microbatch {microbatch} so: {named}"
    yield from (f"{action} has no place in {stages} stages and {microbatches} microbatches" for action in counts)


def has_input(action: Action, done: Collection[Action], last_stage: int) -> bool:
    """Whether what it needs has been computed, wherever."""
    kind, stage, microbatch = action
    if kind is ActionKind.FORWARD:
        return stage == 0 or Action(ActionKind.FORWARD, stage - 1, microbatch) in done
    if kind is ActionKind.BACKWARD_WEIGHT:
        return Action(ActionKind.BACKWARD_INPUT, stage, microbatch) in done
    return Action(ActionKind.FORWARD, stage, microbatch) in done and (
        stage == last_stage or any(Action(one, stage + 1, microbatch) in done for one in GIVE_GRADIENTS)
    )


def too_early(plan: Plan, last_stage: int) -> Iterator[str]:
    """What runs before its input is there, when all ranks take a step at a time and results arrive after it."""
    done: set[Action] = set()
    for step, row in enumerate(zip_longest(*plan.values())):
        actions = [action for action in row if action]
        for action in actions:
            if not has_input(action, done, last_stage):
                yield f"at step {step} {action} runs before its input is there"
        done.update(actions)


Shape = Callable[[int], list[int]]  # how many ranks -> the rank of each stage


def unbalanced(ranks: int) -> list[int]:
    """The rank of each stage: two neighbouring ones on each, and the last one, too, on the first."""
    return [*(stage // 2 for stage in range(2 * ranks)), 0]


def v_shaped(ranks: int) -> list[int]:
    """Down the ranks and up again: the last stage is where the first one is."""
    return [*range(ranks), *reversed(range(ranks))]


def looped(ranks: int) -> list[int]:
    """Twice down the ranks."""
    return [*range(ranks), *range(ranks)]


def own_plan(rank_of: Sequence[int], microbatches: int, *, splits_backward: bool) -> dict[int, list[Action | None]]:
    """All ranks' steps, equally many. A result can be used in the step after the one that it was computed in."""
    waiting = {rank: _work(rank_of, rank, microbatches, splits_backward=splits_backward) for rank in set(rank_of)}
    steps: dict[int, list[Action | None]] = {rank: [] for rank in sorted(waiting)}
    done: set[Action] = set()
    last_stage = len(rank_of) - 1
    while any(waiting.values()):
        taken = {
            rank: next((action for action in actions if has_input(action, done, last_stage)), None)
            for rank, actions in waiting.items()
        }
        for rank, action in taken.items():
            steps[rank].append(action)
            if action:
                waiting[rank].remove(action)
                done.add(action)
    return steps


def _work(rank_of: Sequence[int], rank: int, microbatches: int, *, splits_backward: bool) -> list[Action]:
    """What a rank has to do, most urgent first."""
    backward = ActionKind.BACKWARD_INPUT if splits_backward else ActionKind.BACKWARD
    kinds = [backward, ActionKind.FORWARD, *([ActionKind.BACKWARD_WEIGHT] if splits_backward else [])]
    mine = [stage for stage, holder in enumerate(rank_of) if holder == rank]
    return [
        Action(kind, stage, microbatch)
        for kind in kinds
        for microbatch in range(microbatches)
        for stage in sorted(mine, reverse=kind is not ActionKind.FORWARD)
    ]
