"""Plans of pipelines: which rank runs which stage on which microbatch, in which order, and their simulation. Pure.

A wrong plan would send tensors of the right shape to the wrong place, so plans are simulated. Messages have no names:
between two ranks the first sent meets the first received. If the orders of sending and receiving differ, a stage
computes with another microbatch's data.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice, zip_longest
from types import SimpleNamespace
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


Plan = Mapping[int, Sequence[Action | None]]  # rank -> its actions by step; None: it waits for a step
Ranks = tuple[int, int]  # sender, receiver
SHOWN = 5  # problems

COMPUTED = (ActionKind.FORWARD, ActionKind.BACKWARD, ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT)
GIVE_GRADIENTS = (ActionKind.BACKWARD, ActionKind.BACKWARD_INPUT)

# The name of a message for its receiver, the distance of its stage, and what computes the message.
SENT_AS = {
    ActionKind.SEND_FORWARD: (ActionKind.RECEIVE_FORWARD, 1, (ActionKind.FORWARD,)),
    ActionKind.SEND_BACKWARD: (ActionKind.RECEIVE_BACKWARD, -1, GIVE_GRADIENTS),
}
# What a message stands for, and the distance of the stage that computed it.
TAKEN_AS = {
    ActionKind.RECEIVE_FORWARD: (ActionKind.FORWARD, -1),
    ActionKind.RECEIVE_BACKWARD: (ActionKind.BACKWARD, 1),
}

# Torch's names. Those that map to None are about sharded parameters and dividing gradients.
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
    """Convert torch's plan. Overlapping actions follow each other."""
    plan: dict[int, list[Action | None]] = {}
    for rank, actions in order.items():
        plan[rank] = []
        for action in actions:
            for part in getattr(action, "sub_actions", None) or (action,):
                if part is None:
                    plan[rank].append(None)
                elif kind := KINDS[part.computation_type.name]:
                    plan[rank].append(Action(kind, part.stage_index, part.microbatch_index))
    return plan


def write(plan: Plan) -> list[list[str]]:
    return [[str(action or "") for action in plan[rank]] for rank in sorted(plan)]


def holders(plan: Plan) -> dict[int, int]:
    return {action.stage: rank for rank, actions in plan.items() for action in actions if action}


def wrong_counts(plan: Plan, stages: int, microbatches: int) -> Iterator[str]:
    """Check that each stage runs on one rank, with one forward and one whole or split backward of each microbatch."""
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
    """Whether its input has been computed on any rank."""
    kind, stage, microbatch = action
    if kind is ActionKind.FORWARD:
        return stage == 0 or Action(ActionKind.FORWARD, stage - 1, microbatch) in done
    if kind is ActionKind.BACKWARD_WEIGHT:
        return Action(ActionKind.BACKWARD_INPUT, stage, microbatch) in done
    return Action(ActionKind.FORWARD, stage, microbatch) in done and (
        stage == last_stage or any(Action(one, stage + 1, microbatch) in done for one in GIVE_GRADIENTS)
    )


def too_early(plan: Plan, last_stage: int) -> Iterator[str]:
    """Report actions before their input, if all ranks take steps together and results arrive after each step."""
    done: set[Action] = set()
    for step, row in enumerate(zip_longest(*plan.values())):
        actions = [action for action in row if action]
        for action in actions:
            if not has_input(action, done, last_stage):
                yield f"at step {step} {action} runs before its input is there"
        done.update(actions)


def unbalanced(ranks: int) -> list[int]:
    """Return the rank of each stage: two neighbouring stages on each rank, and a last one on the first rank."""
    return [*(stage // 2 for stage in range(2 * ranks)), 0]


def v_shaped(ranks: int) -> list[int]:
    """Return the rank of each stage: down the ranks and up again, so the first rank has the last stage too."""
    return [*range(ranks), *reversed(range(ranks))]


def looped(ranks: int) -> list[int]:
    return [*range(ranks), *range(ranks)]


def own_plan(rank_of: Sequence[int], microbatches: int, *, splits_backward: bool) -> dict[int, list[Action | None]]:
    """Return a plan with equally many steps for all ranks. Results are available in the next step."""
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
    backward = ActionKind.BACKWARD_INPUT if splits_backward else ActionKind.BACKWARD
    kinds = [backward, ActionKind.FORWARD, *([ActionKind.BACKWARD_WEIGHT] if splits_backward else [])]
    mine = [stage for stage, holder in enumerate(rank_of) if holder == rank]
    return [
        Action(kind, stage, microbatch)
        for kind in kinds
        for microbatch in range(microbatches)
        for stage in sorted(mine, reverse=kind is not ActionKind.FORWARD)
    ]


class Exchange:
    """Simulates a plan with messages, without time: sending never waits, computing waits for its input."""

    def __init__(self, plan: Plan) -> None:
        self._plan = {rank: [action for action in actions if action] for rank, actions in plan.items()}
        self._holders = holders(plan)
        self._last_stage = max(self._holders)
        self._position = dict.fromkeys(plan, 0)
        self._there: Mapping[int, set[Action]] = defaultdict(set)  # rank -> what it has computed or received
        self._sent: Mapping[Ranks, list[Action]] = defaultdict(list)  # by the names of their receiver
        self._received: Mapping[Ranks, list[Action]] = defaultdict(list)

    def problems(self) -> Iterator[str]:
        progress = True
        while progress:
            progress = False
            for rank, actions in self._plan.items():
                while self._position[rank] < len(actions) and self._take(rank, actions[self._position[rank]]):
                    self._position[rank] += 1
                    progress = True
        for rank, actions in self._plan.items():
            if self._position[rank] < len(actions):
                yield f"rank {rank} can never run {actions[self._position[rank]]}"
        for ranks in self._sent.keys() | self._received.keys():
            yield from _mismatches(ranks, self._sent[ranks], self._received[ranks])

    def _take(self, rank: int, action: Action) -> bool:
        kind, stage, microbatch = action
        if kind in SENT_AS:
            name, distance, makers = SENT_AS[kind]
            if not any(Action(maker, stage, microbatch) in self._there[rank] for maker in makers):
                return False
            ranks = rank, self._holders[stage + distance]
            self._sent[ranks].append(Action(name, stage + distance, microbatch))
            self._deliver(ranks, len(self._sent[ranks]) - 1)
        elif kind in TAKEN_AS:
            ranks = self._holders[stage + TAKEN_AS[kind][1]], rank
            self._received[ranks].append(action)
            self._deliver(ranks, len(self._received[ranks]) - 1)
        elif has_input(action, self._there[rank], self._last_stage):
            self._there[rank].add(action)
        else:
            return False
        return True

    def _deliver(self, ranks: Ranks, number: int) -> None:
        """Give the receiver what it takes message `number` for, once that is both sent and asked for."""
        if number < min(len(self._sent[ranks]), len(self._received[ranks])):
            kind, stage, microbatch = self._received[ranks][number]
            maker, distance = TAKEN_AS[kind]
            self._there[ranks[1]].add(Action(maker, stage + distance, microbatch))


def _mismatches(ranks: Ranks, sent: list[Action], received: list[Action]) -> Iterator[str]:
    sender, receiver = ranks
    for number, (one, other) in enumerate(zip(sent, received, strict=False)):
        if one != other:
            yield f"message {number} from rank {sender} to rank {receiver} is for {one}, but is taken for {other}"
    if len(sent) != len(received):
        yield f"rank {sender} sends {len(sent)} messages to rank {receiver}, which expects {len(received)}"


def check_schedule(schedule_class: type[Any], local_stages: int, microbatches: int, ranks: int) -> None:
    stages = local_stages * ranks
    schedule = schedule_class([_stage(stages, ranks, index) for index in range(local_stages)], microbatches)
    plan = read(schedule.pipeline_order)
    problems = list(islice(wrong_counts(plan, stages, microbatches), SHOWN))
    with_messages = getattr(schedule, "pipeline_order_with_comms", None)
    if with_messages is not None:
        problems += islice(Exchange(read(with_messages)).problems(), SHOWN)
    if with_messages is None or has_steps(plan):  # without messages the order of steps matters
        problems += islice(too_early(plan, stages - 1), SHOWN)
    assert not problems, "\n".join(problems)


def has_steps(plan: Plan) -> bool:
    return all(None in actions for rank, actions in plan.items() if rank)


def _stage(stages: int, ranks: int, index: int) -> Any:
    """Return the attributes of a stage that plans are made from."""
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
