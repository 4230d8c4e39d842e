"""Neither fixtures of the runner nor classes of the distributed harness: one process is enough."""

import os
import unittest
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.common_utils import TestCase, run_tests

from disttest_runner.process_group.gang import Gang


class TestTorch(TestCase):
    def test_add(self) -> None:
        self.assertEqual(torch.ones(1) + 1, torch.full((1,), 2.0))


class TestUnittest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
        dist.init_process_group("gloo", rank=0, world_size=1)

    @classmethod
    def tearDownClass(cls) -> None:
        dist.destroy_process_group()

    def test_world_of_one(self) -> None:
        self.assertEqual(dist.get_world_size(), 1)


def test_no_rank_is_set() -> None:
    assert "RANK" not in os.environ


def test_file_store_is_torchs_own(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    store.set("key", "value")
    assert (tmp_path / "store").stat().st_size > 0


def test_with_our_fixture(gang: Gang) -> None:
    assert os.environ["RANK"] == str(gang.rank)


@pytest.mark.skip(reason="not now")
def test_skipped() -> None:
    raise AssertionError


def test_fails() -> None:
    assert dist.is_initialized()


if __name__ == "__main__":
    run_tests()
