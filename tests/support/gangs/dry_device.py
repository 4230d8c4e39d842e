"""Fake tensors on one rank's GPU: torch computes shapes, types and devices, and no kernel runs.

Needs pretended GPUs with the runtime. A collective is checked as NCCL does, since torch's fake process group accepts
everything: its tensors are on the rank's device and contiguous, and their sizes fit to the world.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.distributed.device_mesh import DeviceMesh

from disttest_runner.compat import override

Tensors = Sequence[torch.Tensor]


class RankMode(FakeTensorMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """The mode in which one rank runs its cases."""

    avoid_device_init = True  # torch has no GPU to start

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __deepcopy__(self, memo: object) -> "RankMode":
        return self  # copies of a tensor stay in its mode

    @override
    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default):
            return _read(args[0].dtype)
        if func.namespace == "c10d":
            check(func.overloadpacket.__name__, args, self._device)
        if func is torch.ops.c10d.allreduce_.default:  # hooks of DistributedDataParallel use the result of its future
            future: torch.futures.Future[Any] = torch.futures.Future()
            future.set_result(args[0])
            return args[0], _distributed_c10d._create_work_from_future(future).boxed()  # type: ignore[attr-defined]  # exported when run
        return super().dispatch(func, types, args, kwargs)


def _read(dtype: torch.dtype) -> bool | float | int:
    """Return what code that reads a value gets: ranks agree, and an optimizer takes its first step."""
    if dtype is torch.bool:
        return False
    return 1.0 if dtype.is_floating_point else 1


def check(name: str, arguments: Sequence[Any], device: torch.device) -> None:
    """Raise RuntimeError for a collective that NCCL refuses, or that reads or writes beyond a tensor."""
    if name == "barrier":
        return
    for tensor in _tensors(arguments):
        if tensor.device != device:
            raise RuntimeError(f"{name} gets a tensor on {tensor.device}, but the device of this rank is {device}")
        if not tensor.is_contiguous():
            raise RuntimeError(f"{name} gets a tensor that is not contiguous")
    group = next(dist.ProcessGroup.unbox(one) for one in arguments if isinstance(one, torch.ScriptObject))
    if name in SIZES and (problem := SIZES[name](arguments, group)):
        raise RuntimeError(f"{name} in a group of {group.size()} ranks: {problem}")


def _tensors(arguments: Any) -> list[torch.Tensor]:
    if isinstance(arguments, torch.Tensor):
        return [arguments]
    if isinstance(arguments, (list, tuple)):
        return [tensor for one in arguments for tensor in _tensors(one)]
    return []


def _whole(whole: torch.Tensor, part: torch.Tensor, group: dist.ProcessGroup) -> str:
    if whole.numel() == group.size() * part.numel():
        return ""
    return f"{whole.numel()} elements for all ranks, but {part.numel()} for one"


def _lists(lists: Sequence[Tensors], singles: Tensors, group: dist.ProcessGroup) -> str:
    """Check one tensor for each rank. Ranks that are not the root have no list."""
    for parts in lists:
        if len(parts) != group.size():
            return f"a list of {len(parts)} tensors"
        if {part.numel() for part in parts} != {single.numel() for single in singles}:
            return "tensors of different sizes"
    return ""


def _splits(arguments: Sequence[Any], group: dist.ProcessGroup) -> str:
    for tensor, splits in zip(arguments[:2], arguments[3:5], strict=True):
        if not splits and len(tensor) % group.size():
            return f"{len(tensor)} elements cannot be divided"
        if splits and (len(splits), sum(splits)) != (group.size(), len(tensor)):
            return f"{len(tensor)} elements are divided into {splits}"
    return ""


def _member(rank: int, group: dist.ProcessGroup) -> str:
    return "" if 0 <= rank < group.size() else f"there is no rank {rank}"


# Torch's name of each collective, whose arguments begin with outputs, inputs (in place: one of both) and the group.
SIZES: Mapping[str, Callable[[Sequence[Any], dist.ProcessGroup], str]] = {
    "_allgather_base_": lambda args, group: _whole(args[0], args[1], group),
    "_reduce_scatter_base_": lambda args, group: _whole(args[1], args[0], group),
    "allgather_": lambda args, group: _lists(args[0], args[1], group),
    "reduce_scatter_": lambda args, group: _lists(args[1], args[0], group),
    "gather_": lambda args, group: _lists(args[0], args[1], group) or _member(args[3], group),
    "scatter_": lambda args, group: _lists(args[1], args[0], group) or _member(args[3], group),
    "alltoall_base_": _splits,
    "broadcast_": lambda args, group: _member(args[2], group),
    "reduce_": lambda args, group: _member(args[3], group),
    "send": lambda args, group: _member(args[2], group),
    "recv_": lambda args, group: _member(args[2], group),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What is replaced, where, and why it cannot run with fake tensors."""

    module: str
    name: str
    by: Callable[[Any], Any]  # the original -> its replacement
    reason: str

    def apply(self) -> None:
        owner: Any = importlib.import_module(self.module)
        *path, last = self.name.split(".")
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, self.by(getattr(owner, last)))


def with_real_tensors(function: Any) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with unset_fake_temporarily():
            return function(*arguments, **named)

    return call


def of_real_tensors(mesh: type[DeviceMesh]) -> type[DeviceMesh]:
    for name, member in list(vars(mesh).items()):
        match member:
            case FunctionType():
                setattr(mesh, name, with_real_tensors(member))
            case staticmethod():
                setattr(mesh, name, staticmethod(with_real_tensors(member.__func__)))
            case property():
                setattr(mesh, name, property(with_real_tensors(member.fget)))
            case _:  # a value
                pass
    return mesh


def move(module: torch.nn.Module, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.nn.Module:
    """Replace the parameters and buffers of a module."""
    for child in module.children():
        move(child, function)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            with torch.no_grad():
                moved = function(parameter)
            module._parameters[name] = torch.nn.Parameter(moved, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        module._buffers[name] = None if buffer is None else function(buffer)
    return module


MESHES = "a mesh is made of ranks, which torch keeps and reads in a tensor"
OF_TORCH = (
    Replacement(
        module="torch._subclasses.fake_tensor",
        name="init_gpu_context",
        by=lambda _: lambda _: None,
        reason="it allocates memory",
    ),
    Replacement(module="torch.nn", name="Module._apply", by=lambda _: move, reason="torch cannot swap fake parameters"),
    Replacement(module="torch.distributed.device_mesh", name="DeviceMesh", by=of_real_tensors, reason=MESHES),
    Replacement(module="torch.distributed.device_mesh", name="init_device_mesh", by=with_real_tensors, reason=MESHES),
    Replacement(
        module="torch.distributed.fsdp._fully_shard._fully_shard",
        name="_get_post_forward_mesh_info",
        by=with_real_tensors,
        reason=MESHES,
    ),
    Replacement(
        module="torch.nn.parallel.distributed",
        name="_verify_param_shape_across_processes",
        by=lambda _: lambda *_: None,
        reason="its C++ code reads values",
    ),
    Replacement(
        module="torch._dynamo.config",
        name="optimize_ddp",
        by=lambda _: "python_reducer",
        reason="the C++ code of DistributedDataParallel's reducer reads values",
    ),
)


def same_kind(what: str, mine: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare what a fake tensor has instead of values."""
    for kind in ("device", "dtype", "shape"):
        one, other = getattr(mine, kind), getattr(expected, kind)
        assert one == other, f"{what}: {kind} {one} instead of {other}"
