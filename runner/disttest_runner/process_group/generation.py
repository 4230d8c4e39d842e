"""One generation of a rank: the store that all ranks use for rendezvous, and the default process group."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore, distributed_c10d  # type: ignore[attr-defined]  # exported when run

from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.process_group import device, rendezvous
from disttest_runner.process_group.gang import Gang


class EnvironmentRendezvous:
    """Gives each `init_process_group()` of a case separate keys in the store; all ranks must make equally many."""

    def __init__(self) -> None:
        self._case = 0
        self._groups = 0
        # torch.distributed.rendezvous is a function as well, which hides the module
        module = importlib.import_module("torch.distributed.rendezvous")
        self._original: Callable[..., Iterator[tuple[Store, int, int]]] = module._rendezvous_handlers["env"]  # noqa: SLF001 - registering again is refused
        module._rendezvous_handlers["env"] = self._rendezvous  # noqa: SLF001 - same

    def enter_case(self, number: int) -> None:
        self._case, self._groups = number, 0

    def _rendezvous(self, url: str, *args: Any, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
        self._groups += 1
        for store, rank, world_size in self._original(url, *args, **kwargs):
            yield PrefixStore(f"environment/{self._case}/{self._groups}", store), rank, world_size


if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

STORE_SECONDS = 120
BEYOND_CASE_SECONDS = 60  # torch's timeout is longer than a case's, whose deadline names ranks
GROUPS_OF_A_CASE_BITS = 16
PRODUCTS = "float32 matrix products"  # a name in the report's settings
FULL_PRECISION = "highest"  # of float32 matrix products, in torch's words


class Generation:
    """One in each rank. Rank 0 serves the store on a socket that its agent has bound."""

    def __init__(self, order: RankOrder, listener: int | None) -> None:
        self.order = order
        self._group: ProcessGroup | None = None
        self.spent = ""  # why these processes cannot run another case, if so
        self.lasting_group: ProcessGroup | None = None  # one that a class of an upstream file uses for all its cases
        self.case = 0  # its number
        self.settings: dict[str, str] = {}  # what this changed for the suite
        self._environment_rendezvous = EnvironmentRendezvous()
        self.gang = Gang(
            rank=order.rank,
            world_size=order.world_size,
            local_rank=order.local_rank,
            node_index=order.node_index,
            device=device.of_backend(order.backend).of_rank(order.local_rank),
            backend=order.backend,
            generation=order.generation,
        )
        self._served = self._serve_store(listener) if listener is not None else None
        self._store: Store | None = self._served

    def environment(self) -> dict[str, str]:
        """Return the variables with which `init_process_group()` without arguments uses this generation's store."""
        order = self.order
        return {
            "RANK": str(order.rank),
            "WORLD_SIZE": str(order.world_size),
            "LOCAL_RANK": str(order.local_rank),
            "LOCAL_WORLD_SIZE": str(order.ranks_per_node),
            "GROUP_RANK": str(order.node_index),
            "MASTER_ADDR": order.store_host,
            "MASTER_PORT": str(order.store_port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store exists, so rank 0 must not serve another
        }

    def _serve_store(self, listener: int) -> TCPStore:
        order = self.order
        serve = partial(
            TCPStore,
            order.store_host,
            order.store_port,
            order.world_size,
            is_master=True,
            timeout=timedelta(seconds=STORE_SECONDS),
            wait_for_workers=False,
            master_listen_fd=listener,
        )
        try:
            return serve()
        except NotImplementedError:  # torch 2.7: of its two servers only the older one takes a socket
            return serve(use_libuv=False)

    @property
    def store(self) -> Store:
        """Connected on demand, since a suite without collectives needs none."""
        if self._store is None:
            order = self.order
            self._store = TCPStore(
                order.store_host,
                order.store_port,
                order.world_size,
                is_master=False,
                timeout=timedelta(seconds=STORE_SECONDS),
            )
        return self._store

    def case_store(self, name: str) -> Store:
        """Return a part of the store that only the current case uses, and only in its current turn."""
        return PrefixStore(f"case/{self.case}/{name}", self.store)

    def process_group(self) -> "ProcessGroup":
        """Return the default group, which is made at its first use and kept for the whole generation."""
        if self._group is not None and dist.is_initialized() and dist.group.WORLD is self._group:
            return self._group
        if dist.is_initialized():  # a case of the same file made one for itself and left it
            dist.destroy_process_group()
        order = self.order
        dist.init_process_group(
            order.backend,
            store=PrefixStore(f"disttest/{self.case}/default", self.store),
            rank=order.rank,
            world_size=order.world_size,
            timeout=timedelta(seconds=order.case_seconds + BEYOND_CASE_SECONDS),
            device_id=device.of_backend(order.backend).bind(self.gang.device),
        )
        self._group = dist.group.WORLD
        if self._group is None:
            raise RuntimeError("torch made no default process group")
        return self._group

    def enter(self) -> None:
        """Set the environment, the seeds and the precision of this process."""
        os.environ.update(self.environment())
        os.environ.update(rendezvous.interface_settings(self.order.store_host, self.order.store_port, os.environ))
        torch.manual_seed(self.order.rank)
        if self.order.suite.builtin:
            self._compute_in_float32()

    def _compute_in_float32(self) -> None:
        """Forbid TF32, which NGC images allow: its errors exceed the tolerances of built-in suites."""
        allowed = torch.get_float32_matmul_precision()
        if allowed == FULL_PRECISION:
            return
        torch.set_float32_matmul_precision(FULL_PRECISION)
        self.settings[PRODUCTS] = f"float32 in built-in suites, although TF32 is allowed (precision {allowed!r})"
        if self.order.local_rank == 0:
            print(
                f"disttest: {self.order.suite.builtin} computes float32 matrix products in float32, although this "
                f"image or its environment allows TF32 (precision {allowed!r})",
                file=sys.stderr,
                flush=True,
            )

    def enter_case(self, number: int) -> None:
        """Separate the groups that this case makes from those of other cases."""
        self.case = number
        self._environment_rendezvous.enter_case(number)
        if dist.is_initialized() and hasattr(distributed_c10d, "_world"):
            # Torch numbers groups: a rank that had made more of them than its peers would wait forever.
            distributed_c10d._world.group_count = (number + 1) << GROUPS_OF_A_CASE_BITS  # noqa: SLF001 - no public way

    @property
    def has_lost_group(self) -> bool:
        """Whether a case destroyed or replaced the default group, which other ranks may still have."""
        return self._group is not None and not (dist.is_initialized() and dist.group.WORLD is self._group)

    def leave_group(self) -> None:
        """Destroy the default group before a case that makes it itself. All ranks call this."""
        if self._group is not None and not self.has_lost_group:
            dist.destroy_process_group()
        self._group = None

    def destroy_left_group(self, before: object) -> None:
        """Destroy a default group that a case made and left, since the next case may make one."""
        if dist.is_initialized() and dist.group.WORLD not in (before, self._group, self.lasting_group):
            dist.destroy_process_group()
