"""Do the ways of data parallel training give the parameters that one process gives on the batches of all ranks?

After each of two steps gradients and parameters equal those of DistributedDataParallel and those of a reference without
communication. Gradients are compared as well, since Adam hides their scale. What torch does not support is an expected
failure that names torch's error; once it does, the case is checked like the others.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import pytest
import torch
from torch import nn
from torch._dynamo.exc import InternalTorchDynamoError
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.parallel import DistributedDataParallel

from disttest_runner.compat import override
from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.compiling import CountingBackend, compiler_of_mode, forget_shardings  # noqa: F401 - a fixture
from disttest_runner.suites.reference import alike, batches, my_shard, same

BATCH = 4  # of one rank
INPUTS = 10
BACKEND = CountingBackend()  # shared: torch compiles again for each backend


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


class Reshaping(Perceptron):
    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output = super().forward(batch)
        flat = output.clone().view(-1).squeeze().unsqueeze(0)
        output = output + 0.1 * flat.view(output.shape[0], -1)
        counted = torch.arange(output.shape[1], device=output.device, dtype=output.dtype)
        ones = torch.ones(output.shape, device=output.device, dtype=output.dtype)
        zeros = torch.zeros(output.shape[1], device=output.device, dtype=output.dtype)
        repeated = zeros.unsqueeze(0).repeat(output.shape[0], 1)
        return output * (counted.unsqueeze(0) + ones) + repeated


class Transposing(Perceptron):
    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return super().forward(batch.t().contiguous()).t()


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


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.1),
    "momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "foreach": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=True),
    "adam_fused": functools.partial(torch.optim.Adam, lr=0.1, fused=True),
}
in_every_mode = pytest.mark.parametrize("mode", MODES)
may_compile = pytest.mark.usefixtures("compiler_of_mode")
Step = Callable[[nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Tensor], None]


class Execution(StrEnum):
    EAGER = "eager"
    FORWARD = "forward"  # the model is compiled
    STEP = "step"  # loss, backward and optimizer are compiled too


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMode:
    mode: str
    execution: Execution
    build: Callable[[int, int], nn.Module] = Perceptron
    optimizer: str = "sgd"
    batch_dim: int = 0
    implicit: bool = False  # torch converts plain tensors to replicated DTensors
    has_unequal_shards: bool = True  # only in eager mode: all ranks must compile the same code
    steps: int = 2

    def widths(self, gang: Gang) -> tuple[int, int]:
        odd = 1 if self.has_unequal_shards and self.execution is Execution.EAGER else 0
        return 2 * gang.world_size + odd, gang.world_size + odd

    def batches(self, gang: Gang, step: int) -> list[list[torch.Tensor]]:
        drawn = []
        for number, width in enumerate((INPUTS, self.widths(gang)[1])):
            shape = (BATCH, width) if self.batch_dim == 0 else (width, BATCH)
            drawn.append(batches(gang, 2 * step + number, shape))
        return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that torch does not support, recognised by its error."""

    applies: Callable[[TrainingMode], bool]
    error: type[Exception]
    text: str
    note: str = ""


IN_STEPS = (
    Gap(  # tensors that the model creates are no DTensors
        applies=lambda training: MODES[training.mode].is_dtensor and not training.implicit,
        error=RuntimeError,
        text="got mixed torch.Tensor and DTensor",
    ),
    Gap(  # shapes become symbolic at graph breaks
        applies=lambda training: (training.mode, training.execution) == ("dtensor_shard", Execution.STEP),
        error=InternalTorchDynamoError,
        text="SymNodeVariable() is not a constant",
    ),
    Gap(  # torch 2.7
        applies=lambda training: training.build is Reshaping and training.mode == "dtensor_shard",
        error=RuntimeError,
        text="view size is not compatible with input tensor's size and stride",
    ),
)
# Applied after the gradients were correct, so that broken communication is not excused.
IN_PARAMETERS = (
    Gap(
        applies=lambda training: training.steps == 1,
        error=AssertionError,
        text="Tensor-likes are not close",
        note="the fused Adam steps wrongly where shards are unequal and a gradient is sharded otherwise: ",
    ),
    Gap(
        applies=lambda training: (
            torch.__version__ < "2.8"  # visible with two ranks only, so it cannot be tried beforehand
            and training.mode == "dtensor_replicate"
            and training.optimizer in ("momentum", "foreach")
        ),
        error=AssertionError,
        text="Tensor-likes are not close",
        note="momentum steps wrongly where a gradient is still a sum to be made: ",
    ),
)


@contextlib.contextmanager
def expected(gaps: Iterable[Gap], training: TrainingMode) -> Iterator[None]:
    """Turn the known error of a gap into an expected failure; all other errors propagate."""
    try:
        yield
    except Exception as error:
        for gap in gaps:
            if gap.applies(training) and isinstance(error, gap.error):
                line = next((line for line in str(error).splitlines() if gap.text in line), "")
                if line:
                    pytest.xfail(f"torch {torch.__version__}: {gap.note}{type(error).__name__}: {line.strip()}")
        raise


@pytest.fixture
def mesh(gang: Gang, process_group: object) -> DeviceMesh:  # noqa: ARG001 - the mesh uses the default group
    return init_device_mesh(gang.device.type, (gang.world_size,))


in_every_execution = pytest.mark.parametrize("execution", Execution, ids=str)


@may_compile
@in_every_execution
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@in_every_mode
def test_optimizer(gang: Gang, mesh: DeviceMesh, mode: str, optimizer: str, execution: Execution) -> None:
    equal = (mode, optimizer) == ("dtensor_shard", "adam_fused")  # unequal shards have a separate case
    # A step with fewer parameters compiles faster, and the other cases have several layers. Dynamo compiles DTensor's
    # functions for each shape of a shard, which only several layers test.
    build = Layer if execution is Execution.STEP and mode != "dtensor_shard" else Perceptron
    training = TrainingMode(
        mode=mode, execution=execution, build=build, optimizer=optimizer, has_unequal_shards=not equal
    )
    train(training, gang, mesh)


def test_fused_adam_of_unequal_shards(gang: Gang, mesh: DeviceMesh) -> None:
    """One step only: some ranks fail by their shard, and the others must not wait for them in a second step."""
    train(TrainingMode(mode="dtensor_shard", execution=Execution.EAGER, optimizer="adam_fused", steps=1), gang, mesh)


@may_compile
@in_every_execution
@in_every_mode
def test_batch_dim_analysis(gang: Gang, mesh: DeviceMesh, mode: str, execution: Execution) -> None:
    """Views that fold the batch, and tensors created in the forward, are distributed correctly."""
    train(TrainingMode(mode=mode, execution=execution, build=Reshaping), gang, mesh)


@may_compile
@in_every_execution
@pytest.mark.parametrize("mode", [name for name, mode in MODES.items() if mode.is_dtensor])
def test_batch_dim_analysis_with_implicit_replication(
    gang: Gang, mesh: DeviceMesh, mode: str, execution: Execution
) -> None:
    """The same with implicit replication of plain tensors."""
    train(TrainingMode(mode=mode, execution=execution, build=Reshaping, implicit=True), gang, mesh)


@may_compile
@in_every_execution
@in_every_mode
def test_non_0_batch_dim(gang: Gang, mesh: DeviceMesh, mode: str, execution: Execution) -> None:
    """The batch dimension can be another than the first."""
    optimizer = "momentum" if mode == "dtensor_shard" and execution is Execution.EAGER else "adam_fused"
    train(TrainingMode(mode=mode, execution=execution, build=Transposing, optimizer=optimizer, batch_dim=1), gang, mesh)


def train(training: TrainingMode, gang: Gang, mesh: DeviceMesh) -> None:
    """Train in the mode to check, with DistributedDataParallel and in one process, and compare after each step."""
    mode = MODES[training.mode]
    ours, ddp, reference = alike(lambda: training.build(*training.widths(gang)), gang.device, copies=3)
    ours = mode.wrap(ours, mesh)
    ddp = DistributedDataParallel(ddp)
    make_optimizer = OPTIMIZERS[training.optimizer]
    optimizer, of_ddp, of_reference = (make_optimizer(model.parameters()) for model in (ours, ddp, reference))
    step, called = compiled(training.execution, ours)
    for number in range(training.steps):
        drawn = training.batches(gang, number)
        train_step(reference, of_reference, *(torch.cat(each, training.batch_dim) for each in drawn))
        own = [each[gang.rank] for each in drawn]
        train_step(ddp, of_ddp, *own)
        given = [mode.spread(batch, mesh, training.batch_dim) for batch in own]
        calls_before = BACKEND.calls
        with expected(IN_STEPS, training), implicit_replication() if training.implicit else contextlib.nullcontext():
            step(called, optimizer, *given)
        is_compiled = training.execution is not Execution.EAGER
        assert (BACKEND.calls > calls_before) == is_compiled, "compiled code was not run"
        others = {"DistributedDataParallel": ddp.module, "one process": reference}
        compare_gradients(mode, gang, ours, others)
        with expected(IN_PARAMETERS, training):
            compare_parameters(mode, gang, ours, others)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer.zero_grad()
    ((model(inputs) - labels) ** 2).mean().backward()
    optimizer.step()


def compiled(execution: Execution, model: nn.Module) -> tuple[Step, nn.Module]:
    """Return the function for a step and its model argument. Inductor is not tested here, so it is not used."""
    if execution is Execution.EAGER:
        return train_step, model
    forget_shardings()
    match execution:
        case Execution.FORWARD:
            return train_step, torch.compile(model, backend=BACKEND)  # type: ignore[return-value]  # a module, too
        case Execution.STEP:
            return torch.compile(train_step, backend=BACKEND), model


def compare_gradients(mode: Mode, gang: Gang, ours: nn.Module, others: dict[str, nn.Module]) -> None:
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        gradient = mine(parameter.grad, parameter)
        for who, other in others.items():
            whole = other.get_parameter(name).grad
            assert whole is not None, f"{name} has no gradient in {who}"
            same(f"gradient of {name} against {who}", gradient, mode.of_rank(whole, gang))


def compare_parameters(mode: Mode, gang: Gang, ours: nn.Module, others: dict[str, nn.Module]) -> None:
    for name, parameter in ours.named_parameters():
        for who, other in others.items():
            whole = other.get_parameter(name).detach()
            same(f"{name} against {who}", mine(parameter.detach(), parameter), mode.of_rank(whole, gang))
