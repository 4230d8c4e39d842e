"""Classes for distributed tensors and for FSDP."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.testing._internal.common_fsdp import FSDPTest, FSDPTestMultiThread
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed._tensor import common_dtensor
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorOpTestBase, DTensorTestBase, with_comms


class TestTensors(DTensorTestBase):
    world_size = property(lambda _: 2)

    @with_comms
    def test_shards(self) -> None:
        mesh = init_device_mesh(self.device_type, (2,))
        whole = torch.arange(8.0)
        ours = distribute_tensor(whole, mesh, [Shard(0)])
        self.assertEqual(ours.to_local(), whole.chunk(2)[self.rank])
        self.assertEqual(ours.full_tensor(), whole)


class TestFourRanks(DTensorTestBase):
    @with_comms
    def test_shards(self) -> None:
        mesh = self.build_device_mesh()
        self.assertEqual(distribute_tensor(torch.arange(8.0), mesh, [Shard(0)]).to_local().numel(), 2)


class TestTensorThreads(DTensorOpTestBase):
    world_size = property(lambda _: 2)
    device_type = property(lambda _: "cpu")

    def test_shards(self) -> None:
        ours = distribute_tensor(torch.arange(8.0), self.build_device_mesh(), [Shard(0)])
        self.assertEqual(ours.full_tensor(), torch.arange(8.0))


if hasattr(common_dtensor, "DTensorContinuousTestBase"):

    class TestContinuous(common_dtensor.DTensorContinuousTestBase):
        world_size = 2

        @classmethod
        def backend_str(cls) -> str:
            return "gloo"

        def test_shards(self) -> None:
            mesh = init_device_mesh("cpu", (2,))
            ours = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
            self.assertEqual(ours.full_tensor(), torch.arange(8.0))


if hasattr(common_dtensor, "LocalDTensorTestBase"):

    class TestPretended(common_dtensor.LocalDTensorTestBase):
        """One process pretends to be all ranks: it needs no gang."""

        @with_comms
        def test_shards(self) -> None:
            with common_dtensor.LocalTensorMode(frozenset(range(self.world_size))):
                ours = distribute_tensor(torch.arange(8.0), self.build_device_mesh(), [Shard(0)])
                self.assertEqual(ours.full_tensor().reconcile(), torch.arange(8.0))


class TestFsdp(FSDPTest):
    """Of two ranks although no accelerator is there for them, which torch 2.7 does not mind."""

    world_size = property(lambda _: 2)

    def test_two_ranks(self) -> None:
        self.assertEqual(dist.get_world_size(), 2)


class TestFsdpThreads(FSDPTestMultiThread):
    world_size = property(lambda _: 2)

    def test_threads(self) -> None:
        self.assertIn(self.rank, (0, 1))


if __name__ == "__main__":
    run_tests()
