"""What this machine's GPUs allow; without any, every test here is skipped with that reason."""

import os

import pytest
import torch

from disttest_runner.agent.accelerator import SHARE_GPUS

RANKS_ON_ONE_GPU = 2


@pytest.fixture(scope="session")
def world_size() -> int:
    """A rank for each GPU; on a single one two ranks share it, if NCCL is set to allow that."""
    gpus = torch.cuda.device_count()
    if gpus == 0:
        pytest.skip("this machine has no CUDA device: nothing here was seen on NCCL")
    if gpus == 1 and os.environ.get(SHARE_GPUS) == "1":
        return RANKS_ON_ONE_GPU
    return gpus


@pytest.fixture(scope="session")
def environ() -> dict[str, str]:
    """Gangs of the tests see no GPU unless configured."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(torch.cuda.device_count())))}
