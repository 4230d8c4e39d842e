"""The process group of the stub device: each call enqueues gloo's, and returns before it has run."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import torch.distributed as dist
from torch._C._distributed_c10d import Work

from disttest_runner.compat import override


class Queue(Protocol):
    """Work in the order in which it was enqueued."""

    def enqueue(self, job: Callable[[], object]) -> None: ...


class EnqueuedWork(Work):
    """Returns at once: on CUDA, too, only the stream waits."""

    @override
    def wait(self, *_: Any) -> bool:
        return True

    @override
    def is_completed(self) -> bool:
        return True


# Of a process group, with the same arguments as gloo's.
COLLECTIVES = (
    *("allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced"),
    *("allreduce", "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "reduce"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter"),
    *("send", "recv", "recv_anysource"),
)


def register(backend: str, stream: Callable[[], Queue]) -> None:
    """Register the backend with torch."""

    def enqueuing(name: str) -> Callable[..., Work]:
        def call(group: StubGroup, *arguments: Any) -> Work:
            stream().enqueue(lambda: getattr(group.gloo, name)(*arguments).wait())
            return EnqueuedWork()

        return call

    class StubGroup(dist.ProcessGroup):
        def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
            super().__init__(rank, size)  # type: ignore[call-arg]  # the overload without a store
            self.gloo: Any = dist.ProcessGroupGloo(store, rank, size, timeout)

        def getBackendName(self) -> str:  # noqa: N802 - torch's name
            return backend

    for name in COLLECTIVES:
        setattr(StubGroup, name, enqueuing(name))
    dist.Backend.register_backend(backend, StubGroup, devices=["cpu"])
