"""Compile models that several ranks train, and inspect what was compiled."""

import contextlib
import gc
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
import torch
from torch import fx, nn
from torch._dynamo import compiled_autograd, guards
from torch._dynamo.utils import counters
from torch.distributed.tensor import debug
from torch.nn.parallel import DistributedDataParallel

RECOMPILE_LIMIT = 32  # of one function: each optimizer needs a few
CALLS = re.compile(r"_c10d_functional\.(\w+)\.default\(")  # in the code that inductor generates
# The compiler of torch 2.13 leaves meshes in DTensor's sharding cache that cannot be copied. Torch 2.7 lacks this.
forget_shardings: Callable[[], object] = getattr(debug, "_clear_sharding_prop_cache", lambda: None)
SHARED_BY = pytest.StashKey[tuple[tuple[str, str], set[str]]]()  # test and mode, and the cases that shared so far


@dataclass(slots=True)
class Compiler:
    """Compiles forward and backward, and records the types of the all-reduces of each backward."""

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
        """Compile backwards inside the context as one graph with communication, for these shapes only.

        All steps have the same shapes, and symbolic ones take a third longer to compile.
        """
        # with an underscore in later versions
        enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable  # type: ignore[attr-defined]  # older versions
        context: contextlib.AbstractContextManager[Any] = enable(
            lambda graph: torch.compile(graph, fullgraph=True, backend=self.compile_backward), dynamic=False
        )
        return context


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Isolate the case from what others have compiled."""
    torch._dynamo.reset()  # noqa: SLF001 - as documented
    forget_shardings()
    counters.clear()
    with without_guard_timing(), collector_paused():
        yield
    torch._dynamo.reset()  # noqa: SLF001 - as documented


@pytest.fixture
def compiler_of_mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the cases of one test and mode, which differ in the optimizer only, share compiled code.

    Otherwise each would compile the same graphs again. A repeated case does compile again.
    """
    shared_by = (request.function.__name__, str(request.getfixturevalue("mode")))
    before, cases = request.config.stash.get(SHARED_BY, (None, set[str]()))
    if before != shared_by or request.node.nodeid in cases:
        torch._dynamo.reset()  # noqa: SLF001 - as documented
        cases = set()
    request.config.stash[SHARED_BY] = shared_by, cases | {request.node.nodeid}
    with without_guard_timing(), collector_paused(), never_eager():
        yield


def never_eager() -> contextlib.AbstractContextManager[Any]:
    """Make too many recompilations an error; by default torch then runs the code without compiling."""
    changes = {"recompile_limit": RECOMPILE_LIMIT, "fail_on_recompile_limit_hit": True}
    context: contextlib.AbstractContextManager[Any] = torch._dynamo.config.patch(changes)  # noqa: SLF001 - as documented
    return context


class CountingBackend:
    """The backend `aot_eager`; `calls` counts the runs of compiled graphs."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, graph: fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
        compiled: Callable[..., Any] = torch._dynamo.lookup_backend("aot_eager")(graph, inputs, **options)  # noqa: SLF001 - as documented

        def counted(*arguments: Any) -> Any:
            self.calls += 1
            return compiled(*arguments)

        return counted


def without_guard_timing() -> contextlib.AbstractContextManager[object]:
    """Skip the timing of guards, which some versions of torch log for each compiled frame.

    It flushes the processor's caches and takes a seventh of the time of compiling.
    """
    if not hasattr(guards, "profile_guard_manager"):
        return contextlib.nullcontext()
    return mock.patch.object(guards, "profile_guard_manager", _no_latency)  # a Mock keeps its arguments


def _no_latency(*_: object) -> float:
    return 0.0


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection, which takes a tenth of the time of compiling."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def python_reducer(**inductor: Any) -> Iterator[None]:
    """Have DistributedDataParallel reduce by hooks that can be compiled; the settings are restored afterwards."""
    settings = {
        "compile_threads": 1,  # small models: a process pool for each rank takes longer
        "cpp.vec_isa_ok": False,  # no vector instructions: each rank would test them on this CPU for seconds
        "_fuse_ddp_communication": True,
        "_fuse_ddp_bucket_size": 1,
        **inductor,
    }
    if hasattr(torch._inductor.config, "cpp_cache_precompile_headers"):  # noqa: SLF001 - newer versions only
        settings["cpp_cache_precompile_headers"] = True  # halves the time of building small kernels
    with (
        torch._inductor.config.patch(settings),  # noqa: SLF001 - there is no public way
        torch._dynamo.config.patch(optimize_ddp="python_reducer"),  # noqa: SLF001 - as documented
    ):
        yield


@contextlib.contextmanager
def generated_code() -> Iterator[list[str]]:
    from torch._inductor.graph import GraphLowering

    sources: list[str] = []
    with mock.patch.object(GraphLowering, "save_output_code", sources.append):
        yield sources


def collectives_in(sources: list[str]) -> list[str]:
    return [name for source in sources for name in CALLS.findall(source)]


class Trained:
    """A model with its compiler, if it is compiled."""

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
        if self.compiler is not None:
            assert self.compiler.backwards, f"no backward of {self.name} was compiled"
            assert self.compiler.backwards[-1] == [reduced] * times, f"{self.name} reduces other things"
