"""Compiling models that several ranks train, and seeing what was compiled."""

import contextlib
import gc
import re
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import fx, nn
from torch._dynamo import compiled_autograd, guards
from torch._dynamo.utils import counters
from torch.distributed.tensor import debug
from torch.nn.parallel import DistributedDataParallel

from disttest_runner.gang import Gang

CALLS = re.compile(r"_c10d_functional\.(\w+)\.default\(")  # in the code that inductor generates


@dataclass(slots=True)
class Compiler:
    """Compiles forward and backward. Of each backward it remembers the types of its all-reduces."""

    backend: str
    backwards: list[list[torch.dtype]] = field(default_factory=list)

    def compile_backward(self, graph: fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
        reductions = (
            node for node in graph.graph.nodes if node.op == "call_function" and "all_reduce" in str(node.target)
        )
        self.backwards.append([node.meta["example_value"].dtype for node in reductions])
        compiled: Callable[..., Any] = torch._dynamo.lookup_backend(self.backend)(graph, inputs, **options)  # noqa: SLF001 - as documented
        return compiled

    def backward(self) -> contextlib.AbstractContextManager[Any]:
        """What is called inside has its backward compiled as one graph, communication included."""
        # with an underscore in later versions
        enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable  # type: ignore[attr-defined]  # older versions
        context: contextlib.AbstractContextManager[Any] = enable(
            lambda graph: torch.compile(graph, fullgraph=True, backend=self.compile_backward)
        )
        return context


def why_inductor_cannot(gang: Gang) -> str:
    """What inductor misses here to build its code, asked before anything is compiled."""
    if gang.device.type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "inductor needs triton, and a GPU that triton knows"
    from torch._inductor import cpp_builder, exc

    try:
        compiler = cpp_builder.get_cpp_compiler()
    except (exc.InvalidCxxCompiler, RuntimeError) as error:
        return f"inductor needs a C++ compiler on CPUs: {str(error).splitlines()[0]}"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return f"inductor needs the headers of Python beside {compiler} on CPUs"
    return ""


# Torch 2.7 has no such function.
forget_shardings: Callable[[], object] = getattr(debug, "_clear_sharding_prop_cache", lambda: None)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """No case profits from, or stumbles over, what another one had compiled.

    In DTensor's cache of shardings torch 2.13 leaves meshes of its compiler's own, which it cannot copy later.
    """
    torch._dynamo.reset()  # noqa: SLF001 - as documented
    forget_shardings()
    counters.clear()
    with without_guard_timing(), collector_paused():
        yield
    torch._dynamo.reset()  # noqa: SLF001 - as documented


def without_guard_timing() -> contextlib.AbstractContextManager[object]:
    """Torch times the guards of each frame that it compiles, for its log, and flushes the processor's caches for that.

    It takes a seventh of the time of compiling. Not every version of torch does so.
    """
    if not hasattr(guards, "profile_guard_manager"):
        return contextlib.nullcontext()
    return mock.patch.object(guards, "profile_guard_manager", _no_latency)  # a Mock would keep its arguments


def _no_latency(*_: object) -> float:
    return 0.0


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Compiling makes so many objects that walking them all, time and again, takes a tenth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def python_reducer(**inductor: Any) -> Iterator[None]:
    """DistributedDataParallel reduces by hooks that can be compiled, if made in here; nothing of it stays behind."""
    # one thread: small models, and a pool of processes for each rank costs more than it gives
    settings = {"compile_threads": 1, "_fuse_ddp_communication": True, "_fuse_ddp_bucket_size": 1, **inductor}
    if hasattr(torch._inductor.config, "cpp_cache_precompile_headers"):  # noqa: SLF001 - newer versions only
        settings["cpp_cache_precompile_headers"] = True  # half of the time of building small kernels
    with (
        torch._inductor.config.patch(settings),  # noqa: SLF001 - torch has no other way to choose it
        torch._dynamo.config.patch(optimize_ddp="python_reducer"),  # noqa: SLF001 - as documented
    ):
        yield


@contextlib.contextmanager
def generated_code() -> Iterator[list[str]]:
    """The sources that inductor writes in here."""
    from torch._inductor.graph import GraphLowering

    sources: list[str] = []
    with mock.patch.object(GraphLowering, "save_output_code", sources.append):
        yield sources


def collectives_in(sources: list[str]) -> list[str]:
    """The calls of collectives and waits, in their order."""
    return [name for source in sources for name in CALLS.findall(source)]


class Trained:
    """A model in one of the ways to reduce its gradients."""

    def __init__(self, name: str, model: nn.Module, compiler: Compiler | None, *, compiles_forward: bool) -> None:
        self.name, self.model, self.compiler = name, model, compiler
        self._called: Callable[..., Any] = model
        if compiler is not None and compiles_forward:
            self._called = torch.compile(model, backend=compiler.backend)

    def backward(self, batch: torch.Tensor, *, sync: bool) -> None:
        with contextlib.ExitStack() as stack:
            if not isinstance(self.model, DistributedDataParallel):
                self.model.set_requires_gradient_sync(sync)  # type: ignore[operator]  # a method that replicate adds
            elif not sync:
                stack.enter_context(self.model.no_sync())
            if self.compiler is not None:
                stack.enter_context(self.compiler.backward())
            self._called(batch).square().sum().backward()

    def check_graph(self, reduced: torch.dtype, times: int) -> None:
        """The backward that was compiled last has a reduction of each gradient in it, or has none."""
        if self.compiler is not None:
            assert self.compiler.backwards, f"no backward of {self.name} was compiled"
            assert self.compiler.backwards[-1] == [reduced] * times, f"{self.name} reduces other things"
