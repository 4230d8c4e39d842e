"""Does FSDP1 notice ranks that gather their parameters in another order than the others, or than they did before?

At debug level DETAIL it compares the order across ranks in the first iteration, and later each rank's with its first.
While all ranks use the same path, outputs and parameters are compared with those of the whole model on the batches of
all ranks: the order is irrelevant if the collectives are wrong.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

from disttest_runner.compat import override
from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.reference import alike, batches, descend, same

BATCH = 4  # of one rank
IN, DIM, MIDDLE = 5, 6, 3
STEP = 0.1
AFTERWARDS = 2  # iterations on the other path
WARNING = "Forward order differs from that of the first iteration on rank {rank}"
USUAL, OTHER = "usual.weight", "other.0.weight"  # a parameter of each path

pytestmark = pytest.mark.parametrize(
    "strategy",
    [ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP],
    ids=lambda strategy: str(strategy.name).lower(),
)


class TwoWays(nn.Module):
    """Has two paths with parameters of the same size, so that their collectives match without an error if mixed up."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(IN, DIM)
        self.usual = nn.Linear(DIM, DIM, bias=False)
        self.other = nn.Sequential(
            nn.Linear(DIM, MIDDLE, bias=False), nn.Tanh(), nn.Linear(MIDDLE, DIM, bias=False)
        ).requires_grad_(requires_grad=False)
        self.goes_other_way = False

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        way = self.other if self.goes_other_way else self.usual
        return torch.tanh(way(torch.tanh(self.first(batch))))

    def change_way(self) -> None:
        """Freeze the parameters of the unused path, so that each backward reduces the same amount."""
        self.goes_other_way = not self.goes_other_way
        self.usual.requires_grad_(requires_grad=not self.goes_other_way)
        self.other.requires_grad_(requires_grad=self.goes_other_way)


class ShardedTraining:
    """A sharded model, and an equal whole one that is trained on the batches of all ranks."""

    def __init__(self, gang: Gang, strategy: ShardingStrategy) -> None:
        self.gang = gang
        self.ways, self.reference = alike(TwoWays, gang.device)
        self.ways.usual = self._shard(self.ways.usual, strategy)
        self.ways.other = self._shard(self.ways.other, strategy)
        self.model = self._shard(self.ways, strategy)
        self.iteration = 0

    def _shard(self, module: nn.Module, strategy: ShardingStrategy) -> Any:
        # FSDP1 requires a device_id on the CPU
        return FullyShardedDataParallel(module, sharding_strategy=strategy, device_id=self.gang.device)

    def batches(self) -> list[torch.Tensor]:
        """Draw the next batch of each rank."""
        self.iteration += 1
        return batches(self.gang, self.iteration, (BATCH, IN))

    def train_unchecked(self) -> None:
        """Train on different paths, which mixes up gradients: the warning is about that."""
        self.model(self.batches()[self.gang.rank]).square().sum().backward()
        descend(self.model.parameters(), STEP)

    def train(self) -> None:
        batches = self.batches()
        output = self.model(batches[self.gang.rank])
        output.square().sum().backward()
        expected = [self.reference(batch) for batch in batches]
        torch.autograd.backward([one.square().sum() / self.gang.world_size for one in expected])
        descend((*self.model.parameters(), *self.reference.parameters()), STEP)
        self._compare("the output", output, expected[self.gang.rank])
        self._compare_parameters()

    def evaluate(self) -> None:
        batches = self.batches()
        self._compare("the output", self.model(batches[self.gang.rank]), self.reference(batches[self.gang.rank]))

    def _compare_parameters(self) -> None:
        with FullyShardedDataParallel.summon_full_params(self.model, writeback=False):
            found = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
        expected = dict(self.reference.named_parameters())
        assert found.keys() == expected.keys()
        for name, parameter in found.items():
            self._compare(name, parameter, expected[name].detach())

    def _compare(self, what: str, mine: torch.Tensor, expected: torch.Tensor) -> None:
        same(f"iteration {self.iteration}: {what}", mine, expected)


@pytest.fixture
def pair(gang: Gang) -> Gang:
    """A gang in which ranks can differ; checked before there is a process group."""
    if gang.world_size == 1:
        pytest.skip("not run: an order that differs across ranks needs two of them")
    return gang


@pytest.fixture
def training(pair: Gang, process_group: ProcessGroup, strategy: ShardingStrategy) -> Iterator[ShardedTraining]:
    """Set the debug level, which is read when a model is sharded."""
    del process_group  # it must exist
    before = dist.get_debug_level()  # type: ignore[attr-defined]  # exported when run
    dist.set_debug_level(dist.DebugLevel.DETAIL)  # type: ignore[attr-defined]  # same
    yield ShardedTraining(pair, strategy)
    dist.set_debug_level(before)  # type: ignore[attr-defined]  # same


@pytest.fixture
def order_warnings() -> Iterator[list[str]]:
    found: list[str] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message).startswith("Forward order differs"):
            found.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield found


def test_another_order_in_the_first_iteration_is_an_error(training: ShardedTraining) -> None:
    """On all ranks, with the names of the parameters to gather."""
    if training.gang.rank:
        training.ways.change_way()
    first = rf"rank 0 is all-gathering parameters for \[\['{USUAL}'\]\]"
    other = rf"rank 1 is all-gathering parameters for \[\['{OTHER}', 'other.2.weight'\]\]"
    with pytest.raises(RuntimeError, match=f"^Forward order differs across ranks: {first} while {other}"):
        training.model(training.batches()[training.gang.rank])


@pytest.mark.parametrize("iterations", [1, 3])
def test_another_order_in_a_later_iteration_is_warned_of_once(
    training: ShardedTraining, order_warnings: list[str], iterations: int
) -> None:
    """By the ranks that have changed the order, once."""
    for _ in range(iterations):
        training.train()
    assert not order_warnings
    if training.gang.rank:
        training.ways.change_way()
    training.train_unchecked()
    in_the_iteration = list(order_warnings)
    for _ in range(AFTERWARDS):
        training.train_unchecked()
    assert order_warnings == in_the_iteration, "warned again"
    assert len(in_the_iteration) == (1 if training.gang.rank else 0)
    for text in in_the_iteration:
        assert text.startswith(WARNING.format(rank=training.gang.rank))
        assert f"Expected to all-gather for [['{USUAL}']]" in text
        assert f"trying to all-gather parameters for [['{OTHER}'" in text


def test_training_and_evaluation_by_turns_is_no_other_order(
    training: ShardedTraining, order_warnings: list[str]
) -> None:
    for _ in range(2):
        training.model.train()
        for _ in range(3):
            training.train()
        training.model.eval()
        for _ in range(3):
            training.evaluate()
    assert not order_warnings
