"""Does `fully_shard` (FSDP2) train the model that one process would train on the whole batch?

Every rank draws its own data (seed + rank). Each rank alone computes the expected value from the whole model on the
batches of all ranks. Gradients are compared as well as parameters, shard by shard, since Adam hides gradients of the
wrong scale. Everything is float64, so that rounding hides no error.
"""

import collections
import functools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

from disttest_runner.compat import override
from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.reference import alike, average, batches, local_part, my_shard, same

DIM = 24
BATCH = 2  # of one rank
ITERATIONS = 10
PART_WAY = 3  # iterations that use the second output

Pair = collections.namedtuple("Pair", ["one", "two"])  # noqa: PYI024 - torch's hooks must handle a plain namedtuple
Loss = Callable[[Any, int], Any]  # (output, iteration) -> terms; the loss of a row is their sum


class TwoBranches(nn.Module):
    """Two outputs and two layers; a loss or the forward can leave one unused."""

    def __init__(self, *, uses_second: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.uses_second = uses_second

    @override
    def forward(self, batch: torch.Tensor) -> Any:
        one = torch.relu(self.first(batch))
        return (one, torch.relu(self.second(batch))) if self.uses_second else one


class Wrapping(nn.Module):
    def __init__(self, wrap: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.wrap = nn.Linear(DIM, DIM), wrap

    @override
    def forward(self, batch: torch.Tensor) -> Any:
        one = torch.tanh(self.linear(batch))
        return self.wrap(one, 2 * one)


class Unwrapping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(DIM, DIM)

    @override
    def forward(self, container: Any) -> torch.Tensor:
        one, two = container.values() if isinstance(container, dict) else container
        return torch.tanh(self.linear(one) + self.linear(two))


WRAPS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "list": lambda one, two: [one, two],
    "namedtuple": Pair,
    "tuple": lambda one, two: (one, two),
    "dict": lambda one, two: {"one": one, "two": two},
}


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = batch + self.out(torch.tanh(self.into(self.norm(batch))))
        return result


def same_shards(model: nn.Module, reference: nn.Module, gang: Gang, *, gradients: bool = True) -> None:
    for (name, sharded), (_, whole) in zip(model.named_parameters(), reference.named_parameters(), strict=True):
        same(f"parameter {name}", local_part(sharded), my_shard(whole.detach(), gang))
        if gradients:
            mine, expected = sharded.grad, whole.grad
            assert (mine is None) == (expected is None), f"{name}: only one of both models has a gradient"
            if mine is not None and expected is not None:
                same(f"gradient of {name}", local_part(mine), my_shard(expected, gang))


@pytest.fixture
def mesh(gang: Gang, process_group: object) -> DeviceMesh:  # noqa: ARG001 - the mesh uses the default group
    return init_device_mesh(gang.device.type, (gang.world_size,))


@pytest.fixture(params=[True, False, 2], ids=["reshard", "keep", "reshard_to_2"])
def reshard(request: pytest.FixtureRequest, gang: Gang) -> bool | int:
    """Whether and how gathered parameters are resharded after the forward."""
    chosen: bool | int = request.param
    if chosen is not True and chosen is not False and gang.world_size % chosen:
        pytest.skip(f"not run: resharding to {chosen} ranks needs a world that {chosen} divides, not {gang.world_size}")
    return chosen


def shard(modules: Iterable[nn.Module], mesh: DeviceMesh, *, reshard: bool | int = True) -> None:
    for module in modules:
        fully_shard(module, mesh=mesh, reshard_after_forward=reshard)


def test_unused_forward_output(gang: Gang, mesh: DeviceMesh, reshard: bool | int) -> None:  # noqa: FBT001 - a fixture
    """Gradients are right when the loss leaves an output of the forward unused."""
    model, reference = alike(lambda: TwoBranches(uses_second=True), gang.device)
    shard((*model.children(), model), mesh, reshard=reshard)

    def loss(output: Any, iteration: int) -> Any:
        one, two = output
        return one * two if iteration < PART_WAY else one

    train(model, reference, gang, loss)


def test_unused_forward_module(gang: Gang, mesh: DeviceMesh, reshard: bool | int) -> None:  # noqa: FBT001 - a fixture
    """Gradients are right, and absent where they must be, when the forward leaves a sharded module unused."""
    model, reference = alike(lambda: TwoBranches(uses_second=False), gang.device)
    shard((*model.children(), model), mesh, reshard=reshard)
    train(model, reference, gang)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS.keys())
def test_nontensor_activations(gang: Gang, mesh: DeviceMesh, wrap: Callable[..., Any]) -> None:
    """Gradients find their way when activations travel in containers: torch must hook what is inside of them."""
    model, reference = alike(lambda: nn.Sequential(Wrapping(wrap), Unwrapping()), gang.device)
    shard((*model.children(), model), mesh)
    train(model, reference, gang)


def test_post_acc_grad_hook_runs(gang: Gang, mesh: DeviceMesh) -> None:
    """A hook for accumulated gradients runs once for each parameter, and finds the finished gradient."""
    model, reference = alike(lambda: nn.Sequential(Residual(), Residual()), gang.device)
    shard((*model.children(), model), mesh)
    seen: dict[str, list[torch.Tensor]] = collections.defaultdict(list)

    def hook(name: str, parameter: torch.Tensor) -> None:
        assert parameter.grad is not None, f"{name} has no gradient when its hook runs"
        seen[name].append(local_part(parameter.grad).clone())

    for name, parameter in model.named_parameters():
        on_gradient(parameter, functools.partial(hook, name))
    for module, batch in both(model, reference, gang, iteration=0):
        module(batch).sum().backward()
    average(reference, gang.world_size)
    expected = {name: parameter.grad for name, parameter in reference.named_parameters()}
    assert set(seen) == set(expected)
    for name, gradients in seen.items():
        assert len(gradients) == 1, f"the hook of {name} ran {len(gradients)} times"
        whole = expected[name]
        assert whole is not None
        same(f"gradient of {name} in its hook", gradients[0], my_shard(whole, gang))


def test_post_acc_grad_hook_optim_parity(gang: Gang, mesh: DeviceMesh) -> None:
    """AdamW and its schedule, stepped inside the hooks of each parameter, train like a normal step."""
    model, reference = alike(lambda: nn.Sequential(Residual(), Residual(), nn.Linear(DIM, DIM)), gang.device)
    shard((*model.children(), model), mesh)
    reference_optimizer = torch.optim.AdamW(reference.parameters(), lr=1e-2, foreach=False)
    reference_schedule = torch.optim.lr_scheduler.StepLR(reference_optimizer, step_size=5)
    for parameter in model.parameters():
        optimizer = torch.optim.AdamW([parameter], lr=1e-2, foreach=False)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5)
        on_gradient(parameter, functools.partial(step, optimizer, schedule))
    for iteration in range(ITERATIONS):
        backward(model, reference, gang, iteration)
        step(reference_optimizer, reference_schedule)
        same_shards(model, reference, gang)


def on_gradient(parameter: nn.Parameter, hook: Callable[[torch.Tensor], None]) -> None:
    parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]  # torch has no types here


def step(optimizer: torch.optim.Optimizer, schedule: torch.optim.lr_scheduler.LRScheduler, *_: torch.Tensor) -> None:
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()


def both(model: nn.Module, reference: nn.Module, gang: Gang, iteration: int) -> list[tuple[nn.Module, torch.Tensor]]:
    """The sharded model with the batch of this rank, the reference with those of all."""
    drawn = batches(gang, iteration, (BATCH, DIM))
    return [(model, drawn[gang.rank]), (reference, torch.cat(drawn))]


def whole_output(output: Any, _: int) -> Any:
    return output


def backward(model: nn.Module, reference: nn.Module, gang: Gang, iteration: int, loss: Loss = whole_output) -> None:
    """Compare the losses of this rank's rows, and average the gradients of the reference."""
    losses = []
    for module, batch in both(model, reference, gang, iteration):
        per_row = loss(module(batch), iteration).sum(dim=1)
        per_row.sum().backward()
        losses.append(per_row.detach())
    mine, whole = losses
    same("loss", mine, whole[gang.rank * BATCH : (gang.rank + 1) * BATCH])
    average(reference, gang.world_size)


def train(model: nn.Module, reference: nn.Module, gang: Gang, loss: Loss = whole_output) -> None:
    optimizers = [torch.optim.Adam(one.parameters(), lr=1e-2) for one in (model, reference)]
    for iteration in range(ITERATIONS):
        backward(model, reference, gang, iteration, loss)
        same_shards(model, reference, gang)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=bool(iteration % 2))
    same_shards(model, reference, gang, gradients=False)
