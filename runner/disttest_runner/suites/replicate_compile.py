"""Do compiled `replicate` and compiled DistributedDataParallel give the gradients that the eager one gives?

Forward and backward are compiled, the backward as one graph with its communication. The graph is inspected, so that a
fallback to eager fails. Gradients also equal those of one process on the batches of all ranks.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from disttest_runner.process_group.gang import Gang
from disttest_runner.suites.compiling import (
    Compiler,
    Trained,
    collectives_in,
    fresh_compiler,  # noqa: F401 - a fixture
    generated_code,
    python_reducer,
)
from disttest_runner.suites.reference import alike, average, batches, same
from disttest_runner.suites.toolchain import why_inductor_cannot

DIM = 8
BUCKET_DIM = 300  # a float64 weight has 0.7 MB, and a bucket is closed beyond 1 MB: two weights
pytestmark = pytest.mark.usefixtures("process_group", "fresh_compiler")
BATCH = 2  # of one rank
STEPS = 2
BUCKETS = 3
BUCKET_LAYERS = 2 * BUCKETS
Hook = Callable[..., Any]
SINGLE = torch.float32
Gradients = list[list[torch.Tensor]]  # of each step, of each parameter
FUSED = {"coalesced": "all_reduce_coalesced", "concat": "all_reduce"}
PLAN = {"fc1": ColwiseParallel(), "fc2": RowwiseParallel()}


def two_layers(*, bias: bool = True) -> nn.Module:
    """Tensor parallelism needs pairs, and more layers take longer to compile."""
    fc1, fc2 = (nn.Linear(DIM, DIM, bias=bias) for _ in range(2))
    return nn.Sequential(OrderedDict(fc1=fc1, tanh=nn.Tanh(), fc2=fc2))


def bucket_layers() -> nn.Module:
    """Each has one parameter, so that the sizes of buckets are known and compiling is fast."""
    return nn.Sequential(*(nn.Linear(BUCKET_DIM, BUCKET_DIM, bias=False) for _ in range(BUCKET_LAYERS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileMode:
    dtype: torch.dtype = torch.float64
    reduced: torch.dtype = torch.float64  # the type on the wire
    hook: Hook | None = None
    inductor: bool = False
    compiles_forward: bool = True
    skips_sync: bool = False

    def trained(self, name: str, model: nn.Module, backend: str = "") -> Trained:
        """Compile by a backend; without one the model is eager."""
        if self.hook is not None:
            model.register_comm_hook(None, self.hook)  # type: ignore[operator]  # a method of both kinds
        compiler = Compiler(backend) if backend else None
        return Trained(name, model, compiler, compiles_forward=self.compiles_forward)

    def syncs(self, step: int) -> bool:
        """Whether the step communicates; with `skips_sync` only the last one does."""
        return not self.skips_sync or step == STEPS - 1

    def tolerances(self, expected: torch.Tensor, gang: Gang) -> dict[str, float]:
        """Each rank rounds once, each addition once more."""
        if self.reduced is torch.float64:
            return {}
        error = torch.finfo(self.reduced).eps * (4 + gang.world_size**0.5)
        return {"relative": error, "absolute": error * float(expected.abs().max())}


WAYS = {
    "forward": CompileMode(inductor=True),
    "no_sync": CompileMode(skips_sync=True),
    "fp32": CompileMode(dtype=SINGLE, reduced=SINGLE),
    "bf16_hook": CompileMode(dtype=SINGLE, reduced=torch.bfloat16, hook=default_hooks.bf16_compress_hook),
    "fp16_hook": CompileMode(dtype=SINGLE, reduced=torch.float16, hook=default_hooks.fp16_compress_hook),
    "backward_only": CompileMode(compiles_forward=False),
}


def need_inductor(gang: Gang) -> None:
    if reason := why_inductor_cannot(gang.device.type):
        pytest.skip(reason)


def replicated(model: nn.Module, **options: Any) -> nn.Module:
    from torch.distributed._composable.replicate import replicate

    return replicate(model, **options)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_compile(gang: Gang, way: CompileMode) -> None:
    if way.inductor:
        need_inductor(gang)
    backend = "inductor" if way.inductor else "aot_eager"
    to_replicate, to_wrap, to_stay_eager, reference, alone = alike(
        lambda: two_layers(bias=False), gang.device, copies=5, dtype=way.dtype
    )
    expected = gradients_of_one_process(reference, alone, gang, way)
    eager = way.trained("eager DistributedDataParallel", DistributedDataParallel(to_stay_eager))
    of_eager = train(eager, gang, way)
    with python_reducer():
        for name, model in (
            ("compiled replicate", replicated(to_replicate)),
            ("compiled DistributedDataParallel", DistributedDataParallel(to_wrap)),
        ):
            torch._dynamo.reset()  # noqa: SLF001 - as documented; otherwise the second uses the code of the first
            found = train(way.trained(name, model, backend), gang, way)
            compare(f"{name} against one process", found, expected, gang, way)
            compare(f"{name} against {eager.name}", found, of_eager, gang, way)
    compare(f"{eager.name} against one process", of_eager, expected, gang, way)


def train(one: Trained, gang: Gang, way: CompileMode) -> Gradients:
    found = []
    for step in range(STEPS):
        one.backward(batches(gang, step, (BATCH, DIM), way.dtype)[gang.rank], sync=way.syncs(step))
        found.append(gradients_of(one.model))
        one.check_graph(way.reduced, len(found[-1]) if way.syncs(step) else 0)
        if way.syncs(step):
            one.model.zero_grad()
    return found


def gradients_of_one_process(whole: nn.Module, alone: nn.Module, gang: Gang, way: CompileMode) -> Gradients:
    """Return the gradients for the batches of all ranks, or of this rank in steps without communication."""
    found = []
    for step in range(STEPS):
        drawn = batches(gang, step, (BATCH, DIM), way.dtype)
        whole(torch.cat(drawn)).square().sum().backward()
        alone(drawn[gang.rank]).square().sum().backward()
        if way.syncs(step):
            found.append([gradient / gang.world_size for gradient in gradients_of(whole)])
            whole.zero_grad()
            alone.zero_grad()
        else:
            found.append(gradients_of(alone))
    return found


def gradients_of(model: nn.Module) -> list[torch.Tensor]:
    gradients = [parameter.grad for parameter in model.parameters()]
    return [gradient.clone() for gradient in gradients if gradient is not None]


def compare(what: str, found: Gradients, expected: Gradients, gang: Gang, way: CompileMode) -> None:
    for step, (those, these) in enumerate(zip(found, expected, strict=True)):
        assert these, "the reference has no gradients"
        for number, (mine, theirs) in enumerate(zip(those, these, strict=True)):
            same(f"step {step}, gradient {number} of {what}", mine, theirs, **way.tolerances(theirs, gang))


@pytest.mark.parametrize("how", FUSED)
def test_bucketing(gang: Gang, how: str) -> None:
    """The generated code reduces all gradients in three calls, new gradients and accumulated ones."""
    need_inductor(gang)
    whole, reference = alike(bucket_layers, gang.device)
    passes = [f"fuse_ddp_with_{how}_op", "schedule_comm_wait"]
    # no cache: it would return the code of the other pass
    with python_reducer(_fuse_ddp_communication_passes=passes, reorder_for_locality=False, fx_graph_cache=False):
        model = CompileMode().trained("compiled replicate", replicated(whole, bucket_cap_mb=1), "inductor")
        for step in range(STEPS):
            drawn = batches(gang, step, (1, BUCKET_DIM))
            counters.clear()
            with generated_code() as sources:
                model.backward(drawn[gang.rank], sync=True)
            reference(torch.cat(drawn)).square().sum().backward()
            expected = [gradient / gang.world_size for gradient in gradients_of(reference)]
            compare(f"{model.name}, {how}", [gradients_of(model.model)], [expected], gang, CompileMode())
            check_buckets(collectives_in(sources), FUSED[how])


def check_buckets(calls: list[str], fused: str) -> None:
    reductions = [call.rstrip("_") for call in calls if "all_reduce" in call]
    assert reductions == [fused] * BUCKETS, f"the generated code calls {calls}"
    waits = BUCKET_LAYERS if fused == "all_reduce_coalesced" else BUCKETS
    assert calls.count("wait_tensor") == waits, f"the generated code calls {calls}"
    assert counters["inductor"]["ddp_buckets"] == BUCKETS


def test_ddp_with_tensor_parallel(gang: Gang) -> None:
    """On a mesh of two dimensions: pairs of ranks share each layer, and the pairs share the batch."""
    if gang.world_size < 4 or gang.world_size % 2:
        pytest.skip(f"not run: pairs of ranks need an even world of at least 4, not {gang.world_size}")
    pairs = gang.world_size // 2
    mesh = init_device_mesh(gang.device.type, (pairs, 2), mesh_dim_names=("dp", "tp"))
    to_compile, to_stay_eager, reference = alike(two_layers, gang.device, copies=3)
    drawn = batches(gang, 0, (BATCH, DIM), parts=pairs)
    reference(torch.cat(drawn)).square().sum().backward()
    average(reference, pairs)
    compiler = Compiler("aot_eager")
    eager = DistributedDataParallel(parallelize_module(to_stay_eager, mesh["tp"], PLAN), device_mesh=mesh["dp"])
    # listed before the forward, which removes the parameters from the module
    of_eager = dict(eager.module.named_parameters())
    own = drawn[mesh["dp"].get_local_rank()]
    eager(own).square().sum().backward()
    with python_reducer():
        ours = DistributedDataParallel(parallelize_module(to_compile, mesh["tp"], PLAN), device_mesh=mesh["dp"])
        of_ours = dict(ours.module.named_parameters())
        called = torch.compile(ours, backend=compiler.backend, dynamic=False)  # DTensor cannot hash a symbolic shape
        with compiler.backward():
            called(own).square().sum().backward()
    assert compiler.backwards, "no backward was compiled"
    for name, whole in reference.named_parameters():
        assert whole.grad is not None
        expected = tensor_shard(name, whole.grad, mesh["tp"].get_local_rank())
        for who, parameters in (("compiled", of_ours), ("eager", of_eager)):
            mine = parameters[name].grad
            assert mine is not None, f"{name} has no gradient in the {who} model"
            same(f"gradient of {name}, {who}", mine, expected)


def tensor_shard(name: str, whole: torch.Tensor, place: int) -> torch.Tensor:
    """Cut column-wise layers along the first dimension, row-wise ones along the second; their bias stays whole."""
    layer, kind = name.split(".")
    if isinstance(PLAN[layer], ColwiseParallel):
        return whole.chunk(2)[place]
    return whole.chunk(2, dim=1)[place] if kind == "weight" else whole
