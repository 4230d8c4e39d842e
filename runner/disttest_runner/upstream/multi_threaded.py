"""MultiThreadedTestCase and what derives from it: real ranks over a real process group in the place of threads."""

import types
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch.distributed as dist

from disttest_runner.upstream.play import Part, Player

BACKENDS = {"gloo": "gloo", "nccl": "cpu:gloo,cuda:nccl"}  # threads could share tensors of any device


def adapt(player: Player) -> None:
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

            player.play(Part(test=test, body=part, world_size=world_size))

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
