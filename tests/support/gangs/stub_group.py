"""The backend of the stub device: each collective is gloo's, enqueued, and its call returns before it has run.

`torch.distributed`, functional collectives, the reducer of DistributedDataParallel, `fully_shard`, DTensor and
pipelines all end in the c10d operators of torch's dispatcher. Their kernels for the CPU are wrapped when the first
group is made, so after a suite's conftest has wrapped them: sabotage happens in the stream.

On CUDA, kernels that use the result of a collective run after it, in the order of a stream, and a copy to the CPU
waits for them. Here, a dispatch mode of the main thread waits before an operation on a tensor that a work uses. It
cannot see what reads memory without the dispatcher: the methods of tensors that do are wrapped, and compiled code
needs works whose `wait()` blocks (`STUB_WAITS`).
"""

import collections
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work
from torch.utils._python_dispatch import TorchDispatchMode

from disttest_runner.compat import override
from tests.support.gangs import stub_device
from tests.support.gangs.stub_device import Ticket, WorkFault, stream

COLLECTIVES = (
    *("allreduce_", "allreduce_coalesced_", "reduce_", "broadcast_", "allgather_", "_allgather_base_"),
    *("allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_scatter_", "_reduce_scatter_base_"),
    *("reduce_scatter_tensor_coalesced_", "alltoall_", "alltoall_base_", "gather_", "scatter_", "barrier"),
)
MESSAGES = ("send", "recv_", "recv_any_source_")  # a later one can be what the peer waits for
READERS = ("numpy", "tolist", "__array__", "__deepcopy__", "__reduce_ex__")  # of memory, without the dispatcher
PLAIN = (torch.Tensor, torch.nn.Parameter)
WAITS = os.environ.get(stub_device.WAITS) == "1"

_library: list[Any] = []  # keeps the kernels in place
# Works lose what they override if Python drops them; for arguments and results, see the sabotage.
_alive: collections.deque[object] = collections.deque(maxlen=512)


class EnqueuedWork(Work):
    """Returns at once: on CUDA, too, only the stream waits. NCCL's barrier alone blocks."""

    def __init__(self, ticket: Ticket, results: list[torch.Tensor], *, blocks: bool) -> None:
        super().__init__()
        self._ticket, self._blocks = ticket, blocks
        self._future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        if blocks:
            ticket.then(lambda error: self._complete(results, error))
        else:
            self._complete(results, "")

    def _complete(self, results: list[torch.Tensor], error: str) -> None:
        if error:
            self._future.set_exception(RuntimeError(error))  # type: ignore[arg-type]  # torch wants the type of results
        else:
            self._future.set_result(results)

    @override
    def wait(self, *_: Any) -> bool:
        if self._blocks:
            self._ticket.wait()
        return True

    @override
    def is_completed(self) -> bool:
        return self._ticket not in stream().open

    @override
    def get_future(self) -> Any:
        return self._future


def plain_tensors(value: Any) -> Iterator[torch.Tensor]:
    if type(value) in PLAIN and value.device.type == "cpu" and value.layout is torch.strided:
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from plain_tensors(one)


def addresses(value: Any) -> frozenset[int]:
    found = (tensor.untyped_storage().data_ptr() for tensor in plain_tensors(value))
    return frozenset(address for address in found if address)


class StreamOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Waits before an operation on a tensor of a work, as kernels of CUDA would."""

    @classmethod
    @override
    def _should_skip_dynamo(cls) -> bool:
        """Do not import the compiler, which takes seconds, at the first operation."""
        return False

    @classmethod
    @override
    def ignore_compile_internals(cls) -> bool:
        return True

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(hasattr(one, "__tensor_flatten__") for one in types):
            return NotImplemented  # DTensor and the like call operations on what they contain
        kwargs = kwargs or {}
        is_enqueued = func.namespace == "c10d" or func is torch.ops._c10d_functional.wait_tensor.default
        if not is_enqueued and stream().open:
            stream().settle(addresses([*args, *kwargs.values()]), writes=func._schema.is_mutable)
        return func(*args, **kwargs)


def _settled(name: str) -> None:
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def call(self: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        if stream().open:
            stream().settle(addresses([self]), writes=False)
        return original(self, *arguments, **keywords)

    setattr(torch.Tensor, name, call)


def _job(fault: WorkFault | None, start: Callable[[], Work]) -> Callable[[], Any]:
    """What the stream runs."""

    def fail() -> None:
        start().wait()
        raise RuntimeError(stub_device.FAILURE)

    def hang() -> None:
        start().wait()
        threading.Event().wait()

    match fault:
        case WorkFault.FAILS:
            return fail
        case WorkFault.NEVER_ENDS:
            return hang
        case WorkFault.NOT_JOINED:
            return lambda: None
        case WorkFault.LATE | None:
            return start


def _wrap(name: str) -> None:
    kernel = torch.library.get_kernel(f"c10d::{name}", "CPU")
    schema = getattr(torch.ops.c10d, name).default._schema
    blocks = WAITS or name == "barrier"

    def called(keys: Any, *arguments: Any) -> Any:
        def start() -> Work:
            with torch.no_grad():
                result = kernel.call_boxed(keys, *arguments)
            _alive.append((arguments, result))
            return Work.unbox(result[-1] if isinstance(result, (tuple, list)) else result)

        fault, touched = stub_device.take_fault(name), addresses(arguments)
        ticket = stream().enqueue(
            _job(fault, start),
            reads=touched,
            writes=() if name == "send" else touched,
            is_apart=name in MESSAGES,
            after_seconds=stub_device.VERY_LATE_SECONDS if fault is WorkFault.LATE else stub_device.LATE_SECONDS,
        )
        work = EnqueuedWork(ticket, list(plain_tensors(arguments[0])), blocks=blocks)
        _alive.append(work)
        boxed = Work.boxed(work)
        return boxed if len(schema.returns) == 1 else (arguments[0], boxed)

    _library[0].impl(name, called, "CPU", with_keyset=True)


@functools.cache
def _enqueue_all() -> None:
    """For as long as this process lives."""
    _library.append(torch.library.Library("c10d", "IMPL"))  # type: ignore[no-untyped-call]  # torch has no types here
    for name in (*COLLECTIVES, *MESSAGES):
        _wrap(name)
    for name in READERS:
        _settled(name)
    if not WAITS:
        StreamOrder().__enter__()  # type: ignore[no-untyped-call]  # torch has no types here


def register(backend: str) -> None:
    """Register the backend with torch."""

    def make(*arguments: Any) -> Any:
        _enqueue_all()
        return dist.ProcessGroupGloo(*arguments)

    dist.Backend.register_backend(backend, make, devices=["cpu"])
