"""Runs a plan with messages, rank by rank, without time: does everything arrive, and where it belongs? Pure.

Messages carry no name: between two ranks the first one sent meets the first one asked for. So the order of sending on
one side must be the order of receiving on the other, or a stage computes with another microbatch's data.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from types import SimpleNamespace
from typing import Any

from disttest_runner.suites.pipeline import plans
from disttest_runner.suites.pipeline.plans import GIVE_GRADIENTS, Action, ActionKind, Plan, holders

Ranks = tuple[int, int]  # sender, receiver

# What a message is called by its receiver, and how far away its stage is.
ARRIVES_AS = {
    ActionKind.SEND_FORWARD: (ActionKind.RECEIVE_FORWARD, 1),
    ActionKind.SEND_BACKWARD: (ActionKind.RECEIVE_BACKWARD, -1),
}
COMES_FROM = {ActionKind.RECEIVE_FORWARD: -1, ActionKind.RECEIVE_BACKWARD: 1}


class Exchange:
    """Ranks go on as long as they can; sending never waits, computing waits for its input."""

    def __init__(self, plan: Plan) -> None:
        self._plan = {rank: [action for action in actions if action] for rank, actions in plan.items()}
        self._holders = holders(plan)
        self._last_stage = max(self._holders)
        self._position = dict.fromkeys(plan, 0)
        self._done: set[Action] = set()
        self._sent: Mapping[Ranks, list[Action]] = defaultdict(list)  # as their receiver calls them
        self._asked: Mapping[Ranks, list[Action]] = defaultdict(list)
        self._tickets: dict[Action, tuple[Ranks, int]] = {}  # what was asked for -> its number between these ranks

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
        for ranks in self._sent.keys() | self._asked.keys():
            yield from _mismatches(ranks, self._sent[ranks], self._asked[ranks])

    def _take(self, rank: int, action: Action) -> bool:
        kind, stage, microbatch = action
        if kind in ARRIVES_AS:
            if not self._computed(action):
                return False
            name, distance = ARRIVES_AS[kind]
            ranks = rank, self._holders[stage + distance]
            self._sent[ranks].append(Action(name, stage + distance, microbatch))
        elif kind in COMES_FROM:
            ranks = self._holders[stage + COMES_FROM[kind]], rank
            self._tickets[action] = ranks, len(self._asked[ranks])
            self._asked[ranks].append(action)
        elif not self._has_input(rank, action):
            return False
        self._done.add(action)
        return True

    def _computed(self, message: Action) -> bool:
        kind, stage, microbatch = message
        makers = (ActionKind.FORWARD,) if kind is ActionKind.SEND_FORWARD else GIVE_GRADIENTS
        return any(Action(maker, stage, microbatch) in self._done for maker in makers)

    def _has_input(self, rank: int, action: Action) -> bool:
        kind, stage, microbatch = action
        if kind is ActionKind.FORWARD:
            return stage == 0 or self._came(rank, action, ActionKind.RECEIVE_FORWARD, (ActionKind.FORWARD,))
        if kind is ActionKind.BACKWARD_WEIGHT:
            return Action(ActionKind.BACKWARD_INPUT, stage, microbatch) in self._done
        return Action(ActionKind.FORWARD, stage, microbatch) in self._done and (
            stage == self._last_stage or self._came(rank, action, ActionKind.RECEIVE_BACKWARD, GIVE_GRADIENTS)
        )

    def _came(self, rank: int, action: Action, kind: ActionKind, makers: tuple[ActionKind, ...]) -> bool:
        """From the neighbouring stage: computed here, or by the message that answers what was asked for."""
        source = action.stage + COMES_FROM[kind]
        if self._holders[source] == rank:
            return any(Action(maker, source, action.microbatch) in self._done for maker in makers)
        if (ticket := self._tickets.get(Action(kind, action.stage, action.microbatch))) is None:
            return False
        ranks, number = ticket
        return number < len(self._sent[ranks])


def _mismatches(ranks: Ranks, sent: list[Action], asked: list[Action]) -> Iterator[str]:
    sender, receiver = ranks
    for number, (one, other) in enumerate(zip(sent, asked, strict=False)):
        if one != other:
            yield f"message {number} from rank {sender} to rank {receiver} is for {one}, but is taken for {other}"
    if len(sent) != len(asked):
        yield f"rank {sender} sends {len(sent)} messages to rank {receiver}, which asks for {len(asked)}"


SHOWN = 5  # problems


def check_schedule(schedule_class: type[Any], local_stages: int, microbatches: int, ranks: int) -> None:
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
