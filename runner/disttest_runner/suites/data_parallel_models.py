"""The models of the suite `data-parallel`, and the modes in which they are distributed."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from disttest_runner.compat import override
from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.reference import my_shard

INPUTS = 10


class Perceptron(nn.Module):
    def __init__(self, hidden: int, outputs: int) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(INPUTS, hidden), nn.Linear(hidden, outputs)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.out(torch.tanh(self.into(batch))))


class Layer(nn.Module):
    """The smallest model for compiling a step; `hidden` is for the signature of the others."""

    def __init__(self, hidden: int, outputs: int) -> None:  # noqa: ARG002 - as the others
        super().__init__()
        self.only = nn.Linear(INPUTS, outputs)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.only(batch))


class Reshaping(nn.Module):
    def __init__(self, hidden: int, outputs: int) -> None:
        super().__init__()
        self.inner = Perceptron(hidden, outputs)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.inner(batch)
        flat = output.clone().view(-1).squeeze().unsqueeze(0)
        output = output + 0.1 * flat.view(output.shape[0], -1)
        counted = torch.arange(output.shape[1], device=output.device, dtype=output.dtype)
        ones = torch.ones(output.shape, device=output.device, dtype=output.dtype)
        zeros = torch.zeros(output.shape[1], device=output.device, dtype=output.dtype)
        repeated = zeros.unsqueeze(0).repeat(output.shape[0], 1)
        return output * (counted.unsqueeze(0) + ones) + repeated


class Transposing(nn.Module):
    def __init__(self, hidden: int, outputs: int) -> None:
        super().__init__()
        self.inner = Perceptron(hidden, outputs)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.inner(batch.t().contiguous())
        return output.t()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way of distributing a model. `spread` converts this rank's batch to the model's input."""

    wrap: Callable[[nn.Module, DeviceMesh], nn.Module]
    spread: Callable[[torch.Tensor, DeviceMesh, int], torch.Tensor]
    is_sharded: bool
    is_dtensor: bool  # the model computes with DTensors, inputs included

    def of_rank(self, whole: torch.Tensor, gang: Gang) -> torch.Tensor:
        """Return this rank's part of a parameter or gradient."""
        return my_shard(whole, gang) if self.is_sharded else whole


def mine(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Return this rank's part; a DTensor's gradient, perhaps a partial sum, is redistributed like its parameter."""
    if not isinstance(parameter, DTensor):
        return tensor
    assert isinstance(tensor, DTensor), "a sharded parameter has a gradient of another kind"
    return tensor.redistribute(placements=parameter.placements).to_local()


def as_it_is(batch: torch.Tensor, mesh: DeviceMesh, batch_dim: int) -> torch.Tensor:  # noqa: ARG001 - as the others
    return batch


def as_a_shard(batch: torch.Tensor, mesh: DeviceMesh, batch_dim: int) -> torch.Tensor:
    return DTensor.from_local(batch, mesh, [Shard(batch_dim)], run_check=False)


def with_parameters(placement: Replicate | Shard) -> Callable[[nn.Module, DeviceMesh], nn.Module]:
    def wrap(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                placed = distribute_tensor(parameter.detach(), mesh, [placement])
                module.register_parameter(name, nn.Parameter(placed))
        return model

    return wrap


def by_fully_shard(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def by_replicate(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    from torch.distributed._composable.replicate import replicate

    return replicate(model, device_mesh=mesh)


MODES = {
    "dtensor_replicate": Mode(wrap=with_parameters(Replicate()), spread=as_a_shard, is_sharded=False, is_dtensor=True),
    "dtensor_shard": Mode(wrap=with_parameters(Shard(0)), spread=as_a_shard, is_sharded=True, is_dtensor=True),
    "fully_shard": Mode(wrap=by_fully_shard, spread=as_it_is, is_sharded=True, is_dtensor=False),
    "replicate": Mode(wrap=by_replicate, spread=as_it_is, is_sharded=False, is_dtensor=False),
}
