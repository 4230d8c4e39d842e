"""Makes short-lived gloo groups cheap: 20 ms of waiting for each became 1 ms.

A group of its own costs a case two waits of up to 10 ms each. One is for the threads of its network device: all groups
of a rank share one device. The other is for each of its connections to be let go by that device's thread, which looks
up every 10 ms: that is waited for by a thread that has nothing else to do.
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

MAX_UNBURIED = 8  # groups whose sockets are still open
# What a device depends on.
DEVICE_VARIABLES = ("GLOO_SOCKET_IFNAME", "TORCH_GLOO_LAZY_INIT")


class Burial:
    """Keeps what a group leaves behind until it can be let go in the background."""

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._unburied: queue.Queue[list[Any]] = queue.Queue(MAX_UNBURIED)
        self._devices: dict[tuple[str | None, ...], Any] = {}
        self._thread: threading.Thread | None = None
        group = getattr(dist, "ProcessGroupGloo", None)
        options = getattr(group, "_Options", None)
        if group is None or options is None or not hasattr(options, "_devices"):
            return  # a build without gloo, or one that has its options elsewhere: groups cost what they cost
        original = group.__init__

        def make(this: Any, store: Any, rank: int, size: int, *args: Any, **kwargs: Any) -> None:
            timeout = kwargs.get("timeout", args[0] if args else None)
            if isinstance(timeout, options):  # the caller knows better
                original(this, store, rank, size, *args, **kwargs)
            else:
                chosen = options()
                chosen._devices = [self._device(group)]  # there is no public name for it
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

    def bury(self) -> None:
        """When no group is alive: nobody else has what was made any more."""
        if not self._made:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._dig, name="burial of gloo groups", daemon=True)
            self._thread.start()
        self._unburied.put(self._made)
        self._made = []

    def _dig(self) -> None:
        while True:
            self._unburied.get().clear()


if TYPE_CHECKING:
    from disttest_runner.process_group.generation import Generation

RPC = "torch.distributed.rpc"
SPENT = "the case has used RPC, which a process can do only once"


def adapt_rpc(generation: "Generation", module: ModuleType) -> None:
    """A second agent would hang when it waits for references, so the next case gets new ranks."""
    rpc: Any = module
    original = getattr(rpc, "_init_rpc_backend", None)
    if original is None:  # a build without RPC
        return

    def init(*args: Any, **kwargs: Any) -> Any:
        generation.spent = SPENT
        return original(*args, **kwargs)

    rpc._init_rpc_backend = init


def adapt_seeding(common_utils: Any) -> None:
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
