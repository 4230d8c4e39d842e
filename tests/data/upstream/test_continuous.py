"""Classes whose ranks outlive their tests. Torch 2.7 has them under another name and sets them up in each rank."""

from typing import ClassVar

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests

Base = getattr(common_distributed, "MultiProcContinuousTest", None) or common_distributed.MultiProcContinousTest


class Continuous(Base):
    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        return "cpu"


class TestGroup(Continuous):
    groups: ClassVar[list[object]] = []

    @parametrize("factor", [1, 2])
    def test_sum(self, factor: int) -> None:
        ours = torch.ones(1) * factor
        dist.all_reduce(ours)
        self.assertEqual(ours.item(), 2 * factor)
        self.assertEqual(dist.get_rank(), self.rank)
        self.assertEqual(dist.get_world_size(), self.world_size)

    def test_group_is_kept_1(self) -> None:
        self.groups.append(dist.group.WORLD)

    def test_group_is_kept_2(self) -> None:
        self.assertEqual([group is dist.group.WORLD for group in self.groups], [True])

    def test_subgroup(self) -> None:
        ours = torch.ones(1)
        dist.all_reduce(ours, group=dist.new_group([0, 1]))
        self.assertEqual(ours.item(), 2)


class TestFailure(Continuous):
    def test_1_fails_on_rank_1(self) -> None:
        self.assertEqual(self.rank, 0)

    def test_2_is_not_poisoned(self) -> None:
        ours = torch.ones(1)
        dist.all_reduce(ours)
        self.assertEqual(ours.item(), 2)


class TestTooMany(Continuous):
    world_size = 64

    def test_never(self) -> None:
        raise AssertionError


class TestAlone(Continuous):
    world_size = 1

    def test_alone(self) -> None:
        self.assertEqual(dist.get_world_size(), 1)


instantiate_parametrized_tests(TestGroup)

if __name__ == "__main__":
    run_tests()
