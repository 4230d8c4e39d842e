"""MultiProcessTestCase and what derives from it, such as FSDPTest, DTensorTestBase and the classes for RPC."""

import os
import tempfile
import types
import unittest
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.distributed as dist

from disttest_runner.upstream import rules
from disttest_runner.upstream.run_case import CaseRunner, HarnessRun, ResultPipe


def adapt_multi_process(player: CaseRunner) -> None:
    base, common_utils = player.harness.MultiProcessTestCase, player.common_utils

    def spawn_nothing(_: Any, *__: Any) -> None:
        pass

    def join(self: Any, test: Callable[..., Any]) -> None:
        """Where the parent would wait for its processes."""
        player.leave_all_groups()
        Path(self.file_name).unlink(missing_ok=True)  # the parent's own; parts meet at a name that all ranks know
        world_size = int(self.world_size)
        player.check_part(world_size)
        # neither of the two is in torch 2.7
        if code := getattr(self, "special_return_code_checks", {}).get(test):
            raise unittest.SkipTest(rules.why_end_unplayable(code))
        told = ResultPipe()
        options = {"fake_pg": True} if getattr(self, "fake_pg", False) else {}

        def part() -> None:
            type(self)._run(player.rank, self._current_test_name(), player.shared_name(), told, **options)

        forgiven = test in getattr(self, "skip_return_code_checks", ())
        player.play(HarnessRun(test=test, body=part, world_size=world_size, told=told, may_end_anyhow=forgiven))

    def run_test(self: Any, test_name: str, *_: Any, **__: Any) -> None:
        """What a spawned process does, without a process: exceptions, skips too, go straight to pytest."""
        common_utils.set_rng_seed(common_utils.SEED)
        getattr(self, test_name)()
        if self.destroy_pg_upon_exit and dist.is_initialized():
            dist.destroy_process_group()

    base._start_processes = base._spawn_processes = spawn_nothing
    base._join_processes, base.run_test = join, run_test


BACKENDS = {"gloo": "gloo", "nccl": "cpu:gloo,cuda:nccl"}  # threads could share tensors of any device


def adapt_multi_threaded(player: CaseRunner) -> None:
    base, common_utils = player.harness.MultiThreadedTestCase, player.common_utils

    def spawn_nothing(_: Any) -> None:
        pass

    def join_or_run(self: Any, test: Callable[..., Any]) -> types.MethodType:
        @wraps(test)
        def run(self: Any = self) -> None:
            if self.rank != base.MAIN_THREAD_RANK:  # in the part
                test()
                return
            player.leave_all_groups()
            world_size = int(self.world_size)
            player.check_part(world_size)

            def part() -> None:
                type(self)._run(self._current_test_name, player.rank, world_size)

            player.play(HarnessRun(test=test, body=part, world_size=world_size))

        return types.MethodType(run, self)

    def run_in_group(self: Any, test_name: str, rank: int, world_size: int) -> None:
        common_utils.set_rng_seed(common_utils.SEED)
        store = player.generation.case_store("threads")
        dist.init_process_group(BACKENDS[player.generation.gang.backend], store=store, rank=rank, world_size=world_size)
        self.perThreadSetUp()
        try:
            getattr(self, test_name)()
        finally:
            self.perThreadTearDown()

    base._spawn_threads, base.join_or_run = spawn_nothing, join_or_run
    base.run_test_with_threaded_pg = run_in_group


FOLDERS = ("barrier", "test_dir", "init_dir")
EXCHANGED = "test_dir"  # the one through which tests pass files


class Meeting:
    """The barrier and the folder of one case after another."""

    def __init__(self, player: CaseRunner, module: ModuleType) -> None:
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


def adapt_spawn_driver(player: CaseRunner, module: ModuleType) -> None:
    driver: Any = module
    meeting = Meeting(player, module)
    namespace: Any
    for namespace in (driver, player.harness):
        namespace.initialize_temp_directories, namespace.cleanup_temp_dir = meeting.begin, meeting.end
    driver.Barrier.init = classmethod(lambda _: meeting.restart_barrier())
    driver.Barrier.sync = classmethod(lambda _, *args, **kwargs: meeting.sync(*args, **kwargs))
