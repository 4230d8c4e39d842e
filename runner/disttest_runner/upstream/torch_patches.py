"""Patches of torch: short-lived gloo groups, RPC, seeding and reasons for skipping.

A gloo group costs a case two waits of up to 10 ms each, which the patch reduces to 1 ms. One is for the threads of its
network device: all groups of a rank share a device. The other is for the device's thread to close connections, which it
does every 10 ms: a background thread waits for that.
"""

import os
import queue
import random
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from disttest_runner.upstream import rules

if TYPE_CHECKING:
    from disttest_runner.process_group.generation import Generation

MAX_OPEN = 8  # lists of groups whose sockets are still open
DEVICE_VARIABLES = ("GLOO_SOCKET_IFNAME", "TORCH_GLOO_LAZY_INIT")  # that a device depends on
RPC = "torch.distributed.rpc"
SKIP_CODES = 1000  # our exit codes are above those of processes, which torch uses: parts run in this process
SPENT = "the case has used RPC, which a process can do only once"


class GlooGroups:
    """Shares a network device between groups and closes their connections in the background."""

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._to_close: queue.Queue[list[Any]] = queue.Queue(MAX_OPEN)
        self._devices: dict[tuple[str | None, ...], Any] = {}
        self._thread: threading.Thread | None = None
        group = getattr(dist, "ProcessGroupGloo", None)
        options = getattr(group, "_Options", None)
        if group is None or options is None or not hasattr(options, "_devices"):
            return  # a build without gloo or with other options: no patch
        original = group.__init__

        def make(this: Any, store: Any, rank: int, size: int, *args: Any, **kwargs: Any) -> None:
            timeout = kwargs.get("timeout", args[0] if args else None)
            if isinstance(timeout, options):  # set by the caller
                original(this, store, rank, size, *args, **kwargs)
            else:
                chosen = options()
                chosen._devices = [self._device(group)]  # there is no public name
                if timeout is not None:
                    chosen._timeout = timeout
                original(this, store, rank, size, chosen)
            self._made.append(this)

        group.__init__ = make

    def _device(self, group: Any) -> Any:
        key = tuple(os.environ.get(name) for name in DEVICE_VARIABLES)
        if key not in self._devices:
            self._devices[key] = group.create_default_device()
        return self._devices[key]

    def close_later(self) -> None:
        """Release the groups made so far; only valid if no group is in use."""
        if not self._made:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._close_all, name="close gloo groups", daemon=True)
            self._thread.start()
        self._to_close.put(self._made)
        self._made = []

    def _close_all(self) -> None:
        while True:
            self._to_close.get().clear()


def adapt_rpc(generation: "Generation", module: ModuleType) -> None:
    """Request new ranks after a case with RPC: a second RPC agent hangs waiting for references."""
    rpc: Any = module
    original = getattr(rpc, "_init_rpc_backend", None)
    if original is None:  # a build without RPC
        return

    def init(*args: Any, **kwargs: Any) -> Any:
        generation.spent = SPENT
        return original(*args, **kwargs)

    rpc._init_rpc_backend = init


def adapt_seeding(common_utils: Any) -> None:
    """Replace set_rng_seed if there is no accelerator.

    Torch's own then queues a call with its stack for a CUDA that never starts: 0.4 ms and a leak each time.
    """
    if torch.accelerator.is_available():
        return

    def set_rng_seed(seed: int | None = None) -> None:
        chosen = common_utils.SEED if seed is None else seed
        torch.default_generator.manual_seed(chosen)
        random.seed(chosen)
        np.random.seed(chosen)  # noqa: NPY002 - the legacy generator is the one that tests share

    common_utils.set_rng_seed = set_rng_seed


def adapt_skips(harness: Any, world_size: int) -> None:
    """Add the reasons of cases that need a GPU of their node for each rank; torch's end at 8 ranks with a KeyError."""
    for gpus in range(1, world_size + 1):
        skip = harness.TestSkip(SKIP_CODES + gpus, f"{rules.NOT_RUN}the case requires {gpus} GPUs on each node")
        harness.TEST_SKIPS.setdefault(f"multi-gpu-{gpus}", skip)
