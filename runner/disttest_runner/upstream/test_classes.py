"""Adapts the classes of torch's harness that spawn processes or threads for each case, and its spawn driver.

MultiProcessTestCase is the base of FSDPTest, DTensorTestBase and the classes for RPC.
"""

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

BACKENDS = {"nccl": "cpu:gloo,cuda:nccl"}  # threads share tensors of any device
FOLDERS = ("barrier", "test_dir", "init_dir")
EXCHANGED = "test_dir"  # tests exchange files through it


def _spawn_nothing(*_: Any) -> None:
    pass


def adapt_multi_process(runner: CaseRunner) -> None:
    base, common_utils = runner.harness.MultiProcessTestCase, runner.common_utils

    def join(self: Any, test: Callable[..., Any]) -> None:
        """Run this rank's part instead of waiting for processes."""
        runner.leave_all_groups()
        Path(self.file_name).unlink(missing_ok=True)  # of the parent; parts use a name that is equal in all ranks
        world_size = int(self.world_size)
        runner.check_part(world_size)
        # torch 2.7 has neither attribute
        if code := getattr(self, "special_return_code_checks", {}).get(test):
            raise unittest.SkipTest(rules.why_exit_is_not_run(code))
        pipe = ResultPipe()
        options = {"fake_pg": True} if getattr(self, "fake_pg", False) else {}

        def part() -> None:
            type(self)._run(runner.rank, self._current_test_name(), runner.shared_name(), pipe, **options)

        accepts_any = test in getattr(self, "skip_return_code_checks", ())
        runner.run(HarnessRun(test=test, body=part, world_size=world_size, pipe=pipe, accepts_any_exit=accepts_any))

    def run_test(self: Any, test_name: str, *_: Any, **__: Any) -> None:
        """Do the work of a spawned process; exceptions, skips included, propagate to pytest."""
        common_utils.set_rng_seed(common_utils.SEED)
        getattr(self, test_name)()
        if self.destroy_pg_upon_exit and dist.is_initialized():
            dist.destroy_process_group()

    base._start_processes = base._spawn_processes = _spawn_nothing
    base._join_processes, base.run_test = join, run_test


def adapt_multi_threaded(runner: CaseRunner) -> None:
    base, common_utils = runner.harness.MultiThreadedTestCase, runner.common_utils

    def join_or_run(self: Any, test: Callable[..., Any]) -> types.MethodType:
        @wraps(test)
        def run(self: Any = self) -> None:
            if self.rank != base.MAIN_THREAD_RANK:  # inside the part
                test()
                return
            runner.leave_all_groups()
            world_size = int(self.world_size)
            runner.check_part(world_size)

            def part() -> None:
                type(self)._run(self._current_test_name, runner.rank, world_size)

            runner.run(HarnessRun(test=test, body=part, world_size=world_size))

        return types.MethodType(run, self)

    def run_in_group(self: Any, test_name: str, rank: int, world_size: int) -> None:
        common_utils.set_rng_seed(common_utils.SEED)
        store = runner.generation.case_store("threads")
        backend = runner.generation.gang.backend
        dist.init_process_group(BACKENDS.get(backend, backend), store=store, rank=rank, world_size=world_size)
        self.perThreadSetUp()
        try:
            getattr(self, test_name)()
        finally:
            self.perThreadTearDown()

    base._spawn_threads, base.join_or_run = _spawn_nothing, join_or_run
    base.run_test_with_threaded_pg = run_in_group


class SharedFolder:
    """The barrier and the temporary folder of the spawn driver's cases."""

    def __init__(self, runner: CaseRunner, module: ModuleType) -> None:
        self._runner, self._barrier = runner, module.Barrier
        order = runner.generation.order
        name = f"disttest-{order.store_port}-{order.generation}-node{order.node_index}"
        self._folder = Path(tempfile.gettempdir(), name)  # the same for all ranks of a node
        self._files = self._folder / EXCHANGED
        self._mine = self._files / str(os.getpid())
        self._has_folder = self._has_exchanged = False

    def begin(self, init_method: str | None = None) -> None:
        """Prepare a case: each rank removes its files of the last case, which no rank reads any longer."""
        if not self._has_folder:
            for part in FOLDERS:
                (self._folder / part).mkdir(parents=True, exist_ok=True)
            self._has_folder = True
        if self._has_exchanged:  # tests remove them on one node only
            for file in (self._mine, *(self._files.glob("copy-*") if self._is_first_here else ())):
                file.unlink(missing_ok=True)
        self._has_exchanged = False
        os.environ["TEMP_DIR"] = str(self._folder)
        os.environ["INIT_METHOD"] = init_method or f"file://{self._runner.shared_name()}-shared"

    def end(self) -> None:
        """Keep the files: other ranks can still read them."""

    @property
    def _is_first_here(self) -> bool:
        return self._runner.generation.order.local_rank == 0

    def restart_barrier(self) -> None:
        self._barrier.barrier_id = 0

    def sync(self, wait_for: int | None = None, timeout: float = 0) -> None:
        """Wait for the ranks; the timeout is that of the case, not torch's."""
        del timeout
        self._barrier.barrier_id += 1
        generation = self._runner.generation
        store = generation.case_store(f"barrier/{self._barrier.barrier_id}")
        self._exchange_files(store)
        if store.add("arrived", 1) == (wait_for or dist.get_world_size()):
            store.set("all", "")
        else:
            store.wait(["all"], timedelta(seconds=generation.order.case_seconds))

    def _exchange_files(self, store: Any) -> None:
        """Copy the file that each rank wrote under its process id to all nodes before the barrier ends."""
        order = self._runner.generation.order
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


def adapt_spawn_driver(runner: CaseRunner, module: ModuleType) -> None:
    driver: Any = module
    shared = SharedFolder(runner, module)
    namespace: Any
    for namespace in (driver, runner.harness):
        namespace.initialize_temp_directories, namespace.cleanup_temp_dir = shared.begin, shared.end
    driver.Barrier.init = classmethod(lambda _: shared.restart_barrier())
    driver.Barrier.sync = classmethod(lambda _, *args, **kwargs: shared.sync(*args, **kwargs))
