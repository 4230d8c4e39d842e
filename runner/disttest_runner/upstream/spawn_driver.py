"""The wheel's own distributed_test: its ranks meet at files of a folder, which is bridged across nodes."""

import json
import os
import shutil
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
        self._folder: Path | None = None
        self._has_exchanged = False

    def begin(self, init_method: str | None = None) -> None:
        """A new folder for the case, the same for all ranks of a node; the last case's has no readers any more."""
        order = self._player.generation.order
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        name = f"{Path(self._player.shared_name()).name}-node{order.node_index}"
        self._folder = Path(tempfile.gettempdir(), name)
        self._has_exchanged = False
        for part in FOLDERS:
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        os.environ["TEMP_DIR"] = str(self._folder)
        os.environ["INIT_METHOD"] = init_method or f"file://{self._player.shared_name()}-shared"

    def end(self) -> None:
        """Other ranks may still be reading."""

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
        """What a rank wrote into the folder is seen on all nodes behind the barrier."""
        order = self._player.generation.order
        folder = self._folder
        if order.world_size == order.ranks_per_node or self._has_exchanged or folder is None:
            return
        mine = folder / EXCHANGED / str(os.getpid())
        if not mine.exists():
            return
        self._has_exchanged = True
        store.set(f"file/{order.rank}", json.dumps(mine.read_text()))
        for rank in range(int(os.environ["WORLD_SIZE"])):
            node = rank // order.ranks_per_node
            if node != order.node_index:
                copy = folder / f"{node}-{rank}-{os.getpid()}"
                copy.write_text(json.loads(store.get(f"file/{rank}")))
                copy.rename(folder / EXCHANGED / f"{node}-{rank}")


def adapt(player: Player, module: ModuleType) -> None:
    driver: Any = module
    meeting = Meeting(player, module)
    namespace: Any
    for namespace in (driver, player.harness):
        namespace.initialize_temp_directories, namespace.cleanup_temp_dir = meeting.begin, meeting.end
    driver.Barrier.init = classmethod(lambda _: meeting.restart_barrier())
    driver.Barrier.sync = classmethod(lambda _, *args, **kwargs: meeting.sync(*args, **kwargs))
