"""The wheel's own distributed_test: its ranks meet at files of a folder, which is bridged across nodes."""

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.distributed as dist

from disttest_runner.upstream.play import Player

FOLDERS = ("barrier", "test_dir", "init_dir")
EXCHANGED = "test_dir"  # the one through which tests pass files


class Meeting:
    """The barrier and the folder of one case after another."""

    def __init__(self, player: Player, module: ModuleType) -> None:
        self._player, self._barrier = player, module.Barrier
        order = player.generation.order
        name = f"disttest-{order.store_port}-{order.generation}-node{order.node_index}"
        self._folder = Path(tempfile.gettempdir(), name)  # the same for all ranks of a node
        self._files = self._folder / EXCHANGED
        self._mine = self._files / str(os.getpid())
        self._has_folder = self._has_exchanged = False

    def begin(self, init_method: str | None = None) -> None:
        """Before a case. The files of the last one have no readers any more; each rank removes its own."""
        if not self._has_folder:
            for part in FOLDERS:
                (self._folder / part).mkdir(parents=True, exist_ok=True)
            self._has_folder = True
        if self._has_exchanged:  # tests clean up on one node only
            for file in (self._mine, *(self._files.glob("copy-*") if self._is_first_here else ())):
                file.unlink(missing_ok=True)
        self._has_exchanged = False
        os.environ["TEMP_DIR"] = str(self._folder)
        os.environ["INIT_METHOD"] = init_method or f"file://{self._player.shared_name()}-shared"

    def end(self) -> None:
        """Other ranks may still be reading."""

    @property
    def _is_first_here(self) -> bool:
        return self._player.generation.order.local_rank == 0

    def restart_barrier(self) -> None:
        self._barrier.barrier_id = 0

    def sync(self, wait_for: int | None = None, timeout: float = 0) -> None:
        """Torch's own has a timeout of its own; ours is the case's."""
        del timeout
        self._barrier.barrier_id += 1
        generation = self._player.generation
        store = generation.case_store(f"barrier/{self._barrier.barrier_id}")
        self._exchange_files(store)
        if store.add("arrived", 1) == (wait_for or dist.get_world_size()):
            store.set("all", "")
        else:
            store.wait(["all"], timedelta(seconds=generation.order.case_seconds))

    def _exchange_files(self, store: Any) -> None:
        """What a rank wrote into the folder, under its process id, is seen on all nodes behind the barrier."""
        order = self._player.generation.order
        if order.world_size == order.ranks_per_node or self._has_exchanged:
            return
        if not self._mine.exists():
            return
        self._has_exchanged = True
        store.set(f"file/{order.rank}", self._mine.read_text())
        first_here = order.node_index * order.ranks_per_node
        for rank in range(int(os.environ["WORLD_SIZE"])) if self._is_first_here else ():
            if not first_here <= rank < first_here + order.ranks_per_node:
                (self._files / f"copy-{rank}").write_bytes(store.get(f"file/{rank}"))


def adapt(player: Player, module: ModuleType) -> None:
    driver: Any = module
    meeting = Meeting(player, module)
    namespace: Any
    for namespace in (driver, player.harness):
        namespace.initialize_temp_directories, namespace.cleanup_temp_dir = meeting.begin, meeting.end
    driver.Barrier.init = classmethod(lambda _: meeting.restart_barrier())
    driver.Barrier.sync = classmethod(lambda _, *args, **kwargs: meeting.sync(*args, **kwargs))
