"""What a case is told about the gang that it runs in: the value of the fixture `gang`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """One rank's place. `device` is cuda:<local rank> over NCCL, else the CPU."""

    rank: int
    world_size: int
    local_rank: int
    node_index: int
    device: "torch.device"
    backend: str  # nccl or gloo
    generation: int  # counts the lives of the gang's processes, from 1
