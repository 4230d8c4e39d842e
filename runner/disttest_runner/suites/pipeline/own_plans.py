"""Plans of our own, for pipelines of any length: as users write them. Pure.

Each rank takes, at each step, the most urgent thing whose input is there: a backward, then a forward, then weights.
"""

from collections.abc import Callable, Sequence

from disttest_runner.suites.pipeline.plans import Action, Kind, has_input

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


def plan(rank_of: Sequence[int], microbatches: int, *, splits_backward: bool) -> dict[int, list[Action | None]]:
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
    backward = Kind.BACKWARD_INPUT if splits_backward else Kind.BACKWARD
    kinds = [backward, Kind.FORWARD, *([Kind.BACKWARD_WEIGHT] if splits_backward else [])]
    mine = [stage for stage, holder in enumerate(rank_of) if holder == rank]
    return [
        Action(kind, stage, microbatch)
        for kind in kinds
        for microbatch in range(microbatches)
        for stage in sorted(mine, reverse=kind is not Kind.FORWARD)
    ]
