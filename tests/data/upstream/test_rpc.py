"""Classes that speak RPC, put together as torch's own files do."""

import torch
from torch.distributed import rpc
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.dist_utils import dist_init
from torch.testing._internal.distributed.rpc.rpc_agent_test_fixture import RpcAgentTestFixture
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import TensorPipeRpcAgentTestFixture
from torch.testing._internal.distributed.rpc_utils import generate_tests


class CallTest(RpcAgentTestFixture):
    world_size = property(lambda _: 2)

    @dist_init
    def test_call(self) -> None:
        other = f"worker{1 - self.rank}"
        found = rpc.rpc_sync(other, torch.add, args=(torch.ones(2), self.rank))
        self.assertEqual(found, torch.ones(2) + self.rank)

    @dist_init
    def test_remote_reference(self) -> None:
        reference = rpc.remote(f"worker{1 - self.rank}", torch.add, args=(torch.ones(1), 1))
        self.assertEqual(reference.to_here(), torch.full((1,), 2.0))


globals().update(generate_tests("TensorPipe", TensorPipeRpcAgentTestFixture, [CallTest], __name__))

if __name__ == "__main__":
    run_tests()
