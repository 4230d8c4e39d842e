"""The models of the suite `replicate-compile`."""

import torch
from torch import nn

from disttest_runner.compat import override

DIM = 8
BUCKET_DIM = 300  # a weight of float64 has 0.7 MB; a bucket is closed beyond 1 MB: two weights


class Layers(nn.Module):
    """Two layers, since tensor parallelism takes them in pairs; more only take longer to compile."""

    def __init__(self, *, bias: bool = True) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(DIM, DIM, bias=bias), nn.Linear(DIM, DIM, bias=bias)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.fc2(torch.tanh(self.fc1(batch)))
        return output


class Weight(nn.Module):
    """A layer with one parameter, so that the buckets' sizes are known, and with nothing else to compile."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(BUCKET_DIM, BUCKET_DIM, bias=False)

    @override
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.linear(batch)
        return output
