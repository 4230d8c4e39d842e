"""The value of the fixture `gang`: what a case can read about the gang that it runs in."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The place of one rank. `device` is cuda:<local rank> with NCCL, else the CPU."""

    rank: int
    world_size: int
    local_rank: int
    node_index: int
    device: "torch.device"
    backend: str  # nccl or gloo
    generation: int  # counts the starts of the gang's processes, from 1
