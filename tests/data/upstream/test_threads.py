"""Classes that play ranks by threads."""

import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiThreadedTestCase, spawn_threads_and_init_comms
from torch.testing._internal.common_utils import TestCase, run_tests


class TestThreads(MultiThreadedTestCase):
    world_size = property(lambda _: 2)

    def setUp(self) -> None:
        super().setUp()
        self._spawn_threads()

    def perThreadSetUp(self) -> None:
        super().perThreadSetUp()
        self.was_set_up = True

    def test_gather(self) -> None:
        self.assertTrue(self.was_set_up)
        gathered = [torch.zeros(1) for _ in range(2)]
        dist.all_gather(gathered, torch.tensor([float(self.rank)]))
        self.assertEqual(torch.cat(gathered), torch.tensor([0.0, 1.0]))

    def test_fails_on_rank_1(self) -> None:
        self.assertEqual(dist.get_rank(), 0)


class TestManyThreads(MultiThreadedTestCase):
    def setUp(self) -> None:
        super().setUp()
        self._spawn_threads()

    def test_four(self) -> None:
        self.assertEqual(dist.get_world_size(), 4)


class TestOwnThreads(TestCase):
    """No class of the harness: its threads are one rank's own affair."""

    @spawn_threads_and_init_comms(world_size=3)
    def test_three(self) -> None:
        ours = torch.ones(1)
        dist.all_reduce(ours)
        self.assertEqual(ours.item(), 3)


if __name__ == "__main__":
    run_tests()
