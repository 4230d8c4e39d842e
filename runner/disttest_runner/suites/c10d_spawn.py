"""Torch's own suite of collectives and DDP from the wheel, run like its driver in torch's sources runs it.

The module reads BACKEND, WORLD_SIZE and INIT_METHOD when it is imported.
"""

import importlib
from typing import Any

import torch

from disttest_runner.suites.toolchain import why_inductor_cannot

COMPILED = {"test_ddp_compile_static_graph"}  # cases that compile by inductor, for GPUs only
distributed_test: Any = importlib.import_module("torch.testing._internal.distributed.distributed_test")


class TestDistBackendWithSpawn(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):  # type: ignore[misc]  # noqa: SLF001 - its name; torch's harness has no types
    def setUp(self) -> None:
        compiles = self._testMethodName in COMPILED and torch.cuda.is_available()
        if compiles and (reason := why_inductor_cannot("cuda")):
            self.skipTest(reason)
        super().setUp()
        self._spawn_processes()
        # The part runs in this process, so these flags apply to it.
        self.enterContext(torch.backends.cudnn.flags(enabled=True, allow_tf32=False))
