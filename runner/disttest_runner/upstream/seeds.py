"""Makes the harness's own seeding cheap: it seeds for every case twice."""

import random
from typing import Any

import numpy as np
import torch


def adapt(common_utils: Any) -> None:
    """Where an accelerator is, torch's own is used: it also seeds what will be started later.

    Where there is none it queues a call, with its stack, for a CUDA that never starts: 0.4 ms and a leak each time.
    """
    if torch.accelerator.is_available():
        return

    def set_rng_seed(seed: int | None = None) -> None:
        chosen = common_utils.SEED if seed is None else seed
        torch.default_generator.manual_seed(chosen)
        random.seed(chosen)
        np.random.seed(chosen)  # noqa: NPY002 - the legacy generator is the one that tests share

    common_utils.set_rng_seed = set_rng_seed
