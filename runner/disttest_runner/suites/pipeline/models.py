"""The models that are cut into stages. They use float64, so that rounding hides no error."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from disttest_runner.compat import override

DIM = 12


class Block(nn.Module):
    """Keeps the magnitude of activations and gradients in a chain of any length, so that doubled values are noticed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(DIM, DIM)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch + 0.5 * torch.tanh(self.linear(batch))


class Chain(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(count))

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            batch = layer(batch)
        return batch


class Skipping(Chain):
    """A later layer uses the output of the first one again, which skips the stages between them."""

    def __init__(self, count: int, user: int) -> None:
        super().__init__(count)
        self.user = user

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        first, *others = self.layers
        batch = first(batch)
        skipping = 1 + torch.sin(batch)
        for number, layer in enumerate(others, 1):
            batch = layer(batch)
            if number == self.user:
                batch = batch * skipping
        return batch


def skipping_one(count: int) -> Skipping:
    return Skipping(count, min(2, count - 1))


def skipping_all(count: int) -> Skipping:
    return Skipping(count, count - 1)


class Weighing(Chain):
    @override
    def forward(self, batch: torch.Tensor, *, weight: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # one argument more
        first, *others = self.layers
        batch = first(batch) * weight
        for layer in others:
            batch = layer(batch)
        return batch


class LateWeights(torch.autograd.Function):
    """A linear layer whose backward leaves the weight's gradient for later."""

    @staticmethod
    @override
    def forward(ctx: "Context", batch: torch.Tensor, weight: torch.Tensor, owner: "LateBlock") -> torch.Tensor:
        ctx.save_for_backward(batch, weight)
        ctx.owner = owner
        return batch @ weight.T

    @staticmethod
    @override
    def backward(ctx: "Context", *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = gradients
        batch, weight = ctx.saved_tensors
        ctx.owner.left = batch, gradient
        return gradient @ weight, None, None


class Context(torch.autograd.function.FunctionCtx):
    saved_tensors: tuple[torch.Tensor, torch.Tensor]
    owner: "LateBlock"


class LateBlock(nn.Module):
    """A block that computes its weight's gradient on request, as zero-bubble schedules require."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(DIM, DIM) / DIM**0.5)
        self.is_late = False
        self.left: tuple[torch.Tensor, torch.Tensor] | None = None

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if not self.is_late:
            return batch + 0.5 * torch.tanh(batch @ self.weight.T)
        late = LateWeights.apply(batch, self.weight, self)  # type: ignore[no-untyped-call]  # torch has no types here
        return batch + 0.5 * torch.tanh(late)

    def take_weight_gradient(self) -> Callable[[], None]:
        """Return a function that computes the weight's gradient of the newest backward."""
        left, self.left = self.left, None
        if left is None:
            raise RuntimeError("a weight's gradient is requested before a backward")
        batch, gradient = left

        def finish() -> None:
            found = gradient.T @ batch
            self.weight.grad = found if self.weight.grad is None else self.weight.grad + found

        return finish


def evenly(stages: int) -> list[int]:
    return [1] * stages


def unevenly(stages: int) -> list[int]:
    return [1, 3, *([2] * (stages - 2))]


def cuts(layers: Sequence[int]) -> list[str]:
    """Return the names of the first layers of all stages except the first."""
    return [f"layers.{sum(layers[:stage])}" for stage in range(1, len(layers))]
