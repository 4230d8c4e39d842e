"""MultiProcessTestCase and what derives from it, such as FSDPTest, DTensorTestBase and the classes for RPC."""

import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from disttest_runner.upstream import rules
from disttest_runner.upstream.play import Part, Player, Told


def adapt(player: Player) -> None:
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
        told = Told()
        options = {"fake_pg": True} if getattr(self, "fake_pg", False) else {}

        def part() -> None:
            type(self)._run(player.rank, self._current_test_name(), player.shared_name(), told, **options)

        forgiven = test in getattr(self, "skip_return_code_checks", ())
        player.play(Part(test=test, body=part, world_size=world_size, told=told, may_end_anyhow=forgiven))

    def run_test(self: Any, test_name: str, *_: Any, **__: Any) -> None:
        """What a spawned process does, without a process: exceptions, skips too, go straight to pytest."""
        common_utils.set_rng_seed(common_utils.SEED)
        getattr(self, test_name)()
        if self.destroy_pg_upon_exit and dist.is_initialized():
            dist.destroy_process_group()

    base._start_processes = base._spawn_processes = spawn_nothing
    base._join_processes, base.run_test = join, run_test
