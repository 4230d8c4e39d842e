"""The models of the suite `data-parallel`."""

import torch
from torch import nn

from disttest_runner.compat import override

INPUTS = 10


class Perceptron(nn.Module):
    def __init__(self, hidden: int, outputs: int) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(INPUTS, hidden), nn.Linear(hidden, outputs)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.out(torch.tanh(self.into(batch))))


class Layer(nn.Module):
    """As little as an optimizer's step can be compiled for; `hidden` is for the signature of the others."""

    def __init__(self, hidden: int, outputs: int) -> None:  # noqa: ARG002 - as the others
        super().__init__()
        self.only = nn.Linear(INPUTS, outputs)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.only(batch))


class Reshaping(nn.Module):
    """Folds the batch away and out again, and makes tensors of its size itself."""

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
    """Takes batches that lie along the second dimension."""

    def __init__(self, hidden: int, outputs: int) -> None:
        super().__init__()
        self.inner = Perceptron(hidden, outputs)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.inner(batch.t().contiguous())
        return output.t()
