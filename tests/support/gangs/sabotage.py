"""Breaks communication below every way that there is to communicate. The product knows nothing of it.

`torch.distributed`, functional collectives, the reducer of DistributedDataParallel, `fully_shard`, DTensor and
pipelines all end in the c10d operators of torch's dispatcher, in Python as in C++. Here their kernels for tensors of
the processor are replaced by ones that call the real kernel, wait, and change what goes in or what comes out: so no
rank ever waits for a message that is not sent.

Imported by a conftest.py in the folder of a suite, next to a copy of this file.
"""

import collections
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FakeWork, ProcessGroup, Work
from torch.nn.parallel import DistributedDataParallel

LEFT_OUT = 1  # the rank that the gang forgets


class Sabotage(StrEnum):
    NONE = "none"  # for comparison: through the same kernels
    NOTHING = "nothing"  # messages are exchanged, and nothing of them arrives
    LEFT_OUT = "left-out"  # what rank 1 contributes counts as zeros, and what is meant for it alone does not arrive
    SCALED = "scaled"  # what arrives is twice what it should be
    STALE = "stale"  # what arrived at the previous call arrives again; only the first is right


@dataclass(frozen=True, slots=True)
class SabotagedOperator:
    """Places of arguments. Tensors can be in lists, and in lists of lists."""

    taken: int
    given: int  # the same place: works in place
    group: int
    root: int | None = None
    only_for: bool = False  # each rank receives different data from the root


OPERATORS = {
    "allreduce_": SabotagedOperator(taken=0, given=0, group=1),
    "allreduce_coalesced_": SabotagedOperator(taken=0, given=0, group=1),
    "reduce_": SabotagedOperator(taken=0, given=0, group=1),
    "broadcast_": SabotagedOperator(taken=0, given=0, group=1, root=2),
    "allgather_": SabotagedOperator(taken=0, given=1, group=2),
    "_allgather_base_": SabotagedOperator(taken=0, given=1, group=2),
    "allgather_coalesced_": SabotagedOperator(taken=0, given=1, group=2),
    "allgather_into_tensor_coalesced_": SabotagedOperator(taken=0, given=1, group=2),
    "reduce_scatter_": SabotagedOperator(taken=0, given=1, group=2),
    "_reduce_scatter_base_": SabotagedOperator(taken=0, given=1, group=2),
    "reduce_scatter_tensor_coalesced_": SabotagedOperator(taken=0, given=1, group=2),
    "alltoall_": SabotagedOperator(taken=0, given=1, group=2),
    "alltoall_base_": SabotagedOperator(taken=0, given=1, group=2),
    "gather_": SabotagedOperator(taken=0, given=1, group=2),
    "scatter_": SabotagedOperator(taken=0, given=1, group=2, root=3, only_for=True),
}

WITH_FUTURES = ("allreduce_", "allreduce_coalesced_")  # of which gradient hooks ask the work for its future

Kernel = Callable[..., Any]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All of them. Autograd does not record these changes, as it does not record writes of collectives."""
    if isinstance(value, torch.Tensor):
        yield value.data
    else:
        for one in value:
            yield from tensors(one)


def replaced(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return change(value) if isinstance(value, torch.Tensor) else [replaced(one, change) for one in value]


def doubled(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype is torch.bool:
        return ~tensor
    return (tensor.float() * 2).to(tensor.dtype) if tensor.is_floating_point() and tensor.itemsize == 1 else tensor * 2


def finish(result: Any) -> None:
    Work.unbox(result[-1] if isinstance(result, (tuple, list)) else result).wait()


def finished(result: Any) -> Any:
    """In the place of the real work: that of some collectives writes its result once more when it is waited for."""
    done = Work.boxed(FakeWork())
    return (*result[:-1], done) if isinstance(result, (tuple, list)) else done


class Broken:
    """The kernels of one rank."""

    def __init__(self, sabotage: Sabotage, rank: int) -> None:
        self._sabotage, self._rank = sabotage, rank
        self._before: dict[object, list[torch.Tensor]] = {}
        self._has_met = False
        self.is_paused = False

    def collective(self, name: str, operator: SabotagedOperator, real: Kernel, arguments: list[Any]) -> Any:
        taken = list(tensors(arguments[operator.taken]))
        before = [tensor.clone() for tensor in taken]
        is_root = False
        if operator.root is not None:
            is_root = ProcessGroup.unbox(arguments[operator.group]).rank() == arguments[operator.root]
        keeps = self._give(operator, arguments, is_root=is_root)
        result = real(*arguments)
        finish(result)
        is_giver = is_root and not operator.only_for
        arrived = before if keeps or is_giver else self._arrived(name, taken, before)
        for tensor, value in zip(taken, arrived, strict=True):
            if tensor is not value:
                tensor.copy_(value)
        return result if name in WITH_FUTURES else finished(result)

    def _give(self, operator: SabotagedOperator, arguments: list[Any], *, is_root: bool) -> bool:
        """Changes what this rank gives; returns whether it keeps what it has instead of what arrives."""
        if self._sabotage is not Sabotage.LEFT_OUT or self._rank != LEFT_OUT:
            return False
        if operator.root is not None and not is_root:
            return True
        if operator.given == operator.taken:
            for tensor in tensors(arguments[operator.given]):
                tensor.zero_()
        else:
            arguments[operator.given] = replaced(arguments[operator.given], torch.zeros_like)
        return False

    def _arrived(self, name: str, right: list[torch.Tensor], before: list[torch.Tensor]) -> list[torch.Tensor]:
        match self._sabotage:
            case Sabotage.NOTHING:
                return before
            case Sabotage.SCALED:
                return [doubled(tensor) for tensor in right]
            case Sabotage.STALE:
                return self._previous(name, right)
            case Sabotage.NONE | Sabotage.LEFT_OUT:
                return right

    def _previous(self, name: object, right: list[torch.Tensor]) -> list[torch.Tensor]:
        """Of the same operator, shapes and types."""
        key = (name, *((tensor.shape, tensor.dtype) for tensor in right))
        copies = [tensor.clone() for tensor in right]
        previous, self._before[key] = self._before.get(key, copies), copies
        return previous

    def send(self, real: Kernel, arguments: list[Any]) -> Any:
        """Left to run on: the other end may be sending as well, and receive only later."""
        payload = list(tensors(arguments[0]))
        match self._sabotage:
            case Sabotage.LEFT_OUT if self._rank == LEFT_OUT:
                payload = [torch.zeros_like(tensor) for tensor in payload]
            case Sabotage.SCALED:
                payload = [doubled(tensor) for tensor in payload]
            case Sabotage.STALE:
                payload = self._previous(("send", arguments[2]), payload)
            case _:
                pass
        return real(payload, *arguments[1:])

    def receive(self, real: Kernel, arguments: list[Any]) -> Any:
        is_lost = self._sabotage is Sabotage.LEFT_OUT and self._rank == LEFT_OUT
        if is_lost or self._sabotage is Sabotage.NOTHING:
            return real(replaced(arguments[0], torch.empty_like), *arguments[1:])
        return real(*arguments)

    def barrier(self, real: Kernel, arguments: list[Any]) -> Any:
        """Of two ranks, when one is left out, none waits. A barrier carries no value that could be scaled."""
        has_met, self._has_met = self._has_met, True
        opens = self._sabotage in (Sabotage.NOTHING, Sabotage.LEFT_OUT) or (
            self._sabotage is Sabotage.STALE and has_met
        )
        if not opens:
            finish(real(*arguments))
        return Work.boxed(FakeWork())


_library: list[Any] = []  # keeps the kernels in place
# A thread of gloo that drops the last reference to a tensor of Python waits for the interpreter's lock, and holds the
# one that the next call waits for: with the interpreter's lock, since this is Python.
_alive: collections.deque[object] = collections.deque(maxlen=256)


def install(sabotage: str, settle: Callable[[], None] = lambda: None) -> None:
    """For as long as this process lives. `settle` waits for collectives that only have been enqueued."""
    broken = Broken(Sabotage(sabotage), int(os.environ["RANK"]))
    library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]  # torch has no types here
    _library.append(library)

    def put(name: str, kernel: Callable[[Kernel, list[Any]], Any]) -> None:
        found = torch.library.get_kernel(f"c10d::{name}", "CPU")

        def real(keys: Any, changed: tuple[Any, ...]) -> Any:
            result = found.call_boxed(keys, *changed)
            _alive.append((changed, result))
            return result

        def called(keys: Any, *arguments: Any) -> Any:
            if broken.is_paused:
                return real(keys, arguments)
            with torch.no_grad():
                return kernel(lambda *changed: real(keys, changed), list(arguments))

        library.impl(name, called, "CPU", with_keyset=True)  # type: ignore[no-untyped-call]  # same

    def put_collective(name: str, operator: SabotagedOperator) -> None:
        put(name, lambda real, arguments: broken.collective(name, operator, real, arguments))

    for name, operator in OPERATORS.items():
        put_collective(name, operator)
    for owner, preparation in PREPARATIONS:
        spare(broken, owner, preparation, settle)
    put("send", broken.send)
    put("recv_", broken.receive)
    put("recv_any_source_", broken.receive)
    put("barrier", broken.barrier)


# What only prepares a case is left alone, or cases would end in there, before what they are about.
PREPARATIONS = (
    (DistributedDataParallel, "__init__"),  # compares the parameters of all ranks
    (dist, "send_object_list"),  # stages of a pipeline tell each other shapes, and gloo ends the process where the
    (dist, "recv_object_list"),  # bytes of a message do not fit
)


def spare(broken: Broken, owner: Any, name: str, settle: Callable[[], None]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def spared(*arguments: Any, **keywords: Any) -> Any:
        settle()
        broken.is_paused = True
        try:
            return original(*arguments, **keywords)
        finally:
            settle()
            broken.is_paused = False

    setattr(owner, name, spared)
