"""Classes that spawn a process for each rank of each test."""

import inspect
import os
import sys
import unittest
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import FileStore
from torch.testing._internal.common_distributed import (
    TEST_SKIPS,
    DistributedTestBase,
    MultiProcessTestCase,
    requires_nccl,
    skip_if_lt_x_gpu,
    skip_if_small_worldsize,
    with_dist_debug_levels,
)
from torch.testing._internal.common_utils import run_tests


class Spawned(MultiProcessTestCase):
    @property
    def world_size(self) -> int:
        return 2

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()


class TestMeetings(Spawned):
    """Ranks meet by any kind of store or URL."""

    def _sum(self) -> None:
        ours = torch.ones(2) * (self.rank + 1)
        dist.all_reduce(ours)
        self.assertEqual(ours, torch.full((2,), 3.0))

    def test_by_file_store(self) -> None:
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        self._sum()

    def test_by_imported_file_store(self) -> None:
        store = FileStore(self.file_name, self.world_size)
        store.set(f"from {self.rank}", "here")
        self.assertEqual(store.get(f"from {1 - self.rank}"), b"here")

    def test_by_file_twice(self) -> None:
        for _ in range(2):
            dist.init_process_group(
                "gloo", init_method=f"file://{self.file_name}", rank=self.rank, world_size=self.world_size
            )
            self._sum()
            dist.destroy_process_group()

    def test_by_a_fixed_port(self) -> None:
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "6789"
        dist.init_process_group("gloo", rank=self.rank, world_size=self.world_size)
        self._sum()

    def test_by_address(self) -> None:
        method = "tcp://localhost:12355"
        dist.init_process_group("gloo", init_method=method, rank=self.rank, world_size=self.world_size)
        self._sum()

    def test_seeds_are_alike(self) -> None:
        store = dist.FileStore(self.file_name, self.world_size)
        store.set(f"drawn by {self.rank}", str(torch.rand(1).item()))
        self.assertEqual(store.get("drawn by 0"), store.get("drawn by 1"))

    def test_left_group_is_destroyed(self) -> None:
        self.assertFalse(dist.is_initialized())


class TestEndings(Spawned):
    """What a spawned process would have said by its exit code."""

    def test_fails_on_rank_1(self) -> None:
        self.assertEqual(self.rank, 0, "wrong on rank one")

    def test_fails_while_the_other_waits(self) -> None:
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        if self.rank == 1:
            raise ValueError("the cause")
        dist.all_reduce(torch.ones(1))

    def test_after_failures(self) -> None:
        self.assertIn(self.rank, (0, 1))

    def test_skips_by_code(self) -> None:
        sys.exit(TEST_SKIPS["no_peer_access"].exit_code)

    def test_skips_by_exception(self) -> None:
        raise unittest.SkipTest("not today")

    def test_leaves_with_zero(self) -> None:
        sys.exit(0)

    def test_leaves_with_error(self) -> None:
        sys.exit(MultiProcessTestCase.TEST_ERROR_EXIT_CODE)

    def test_leaves_with_three(self) -> None:
        sys.exit(3)

    @unittest.expectedFailure
    def test_fails_as_expected(self) -> None:
        self.assertEqual(1, 2)

    @unittest.expectedFailure
    def test_fails_as_expected_on_rank_1(self) -> None:
        self.assertEqual(self.rank, 0)

    @unittest.skip("never")
    def test_skipped_by_decorator(self) -> None:
        raise AssertionError


class TestNeeds(Spawned):
    """Decorators decide before anything is started: the body of none of these may be reached."""

    @skip_if_lt_x_gpu(2)
    def test_two_gpus(self) -> None:
        raise AssertionError

    if "allow_cpu" in inspect.signature(skip_if_lt_x_gpu).parameters:

        @skip_if_lt_x_gpu(2, allow_cpu=True)
        def test_two_gpus_or_none(self) -> None:
            pass

    @skip_if_small_worldsize
    def test_eight_ranks(self) -> None:
        raise AssertionError

    @requires_nccl()
    def test_nccl_is_built(self) -> None:
        pass

    @with_dist_debug_levels(levels=["DETAIL"])
    @skip_if_lt_x_gpu(2)
    def test_behind_another_decorator(self) -> None:
        raise AssertionError

    def setUp(self) -> None:
        os.environ["BACKEND"], os.environ["WORLD_SIZE"] = "gloo", "2"
        super().setUp()


class TestOneRank(Spawned):
    world_size = property(lambda _: 1)

    def test_alone(self) -> None:
        self.assertEqual(self.rank, 0)


class TestManyRanks(Spawned):
    world_size = property(lambda _: 64)

    def test_never(self) -> None:
        raise AssertionError


class TestNoRanks(Spawned):
    """As a class does where it counts GPUs and finds none; torch's own harness says ok."""

    world_size = property(lambda _: min(4, 0))

    def test_never(self) -> None:
        raise AssertionError


class TestCodes(Spawned):
    def setUp(self) -> None:
        super().setUp()
        test: Any = getattr(self, self._testMethodName)
        if self._testMethodName == "test_aborts":
            self.special_return_code_checks = {test.__wrapped__: -6}
        else:
            self.skip_return_code_checks = [test.__wrapped__]

    def test_aborts(self) -> None:
        os.abort()

    def test_may_leave_anyhow(self) -> None:
        sys.exit(5)


class TestChanges(Spawned):
    """In their order: the first changes what the second reads."""

    def test_1_changes(self) -> None:
        os.environ["LEFT"] = "behind"
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        dist.set_debug_level_from_env()
        dist.init_process_group(
            "gloo", init_method=f"file://{self.file_name}", rank=self.rank, world_size=self.world_size
        )
        dist.barrier()

    def test_2_finds_nothing_changed(self) -> None:
        self.assertNotIn("LEFT", os.environ)
        self.assertNotEqual(Path.cwd(), Path("/"))
        self.assertEqual(torch.get_default_dtype(), torch.float32)
        self.assertEqual(dist.get_debug_level(), dist.DebugLevel.OFF)
        self.assertFalse(dist.is_initialized())


class TestBase(DistributedTestBase):
    world_size = property(lambda _: 2)

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()

    def test_group(self) -> None:
        self.create_pg("cpu")
        ours = torch.ones(1)
        dist.all_reduce(ours)
        self.assertEqual(ours.item(), 2)


if __name__ == "__main__":
    run_tests()
