"""What a rank is told when it starts, and which modules a zygote imports before that."""

import importlib
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self

from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_runner.cases import sources


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOrder:
    """One rank of one generation."""

    rank: int
    local_rank: int
    node_index: int
    world_size: int
    ranks_per_node: int
    generation: int
    backend: str
    case_seconds: int
    store_host: str
    store_port: int
    builtin: str
    directory: str
    root: str = ""
    files: tuple[str, ...] = ()
    select: str = ""
    cases: tuple[str, ...] = ()
    in_repository: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        lists: dict[str, Any] = {name: tuple(data[name]) for name in ("files", "cases")}
        return cls(**{name: data[name] for name in cls.__slots__ if name not in lists}, **lists)


MIN_COLLECT_SECONDS = 60.0  # to import, fork and collect

# What every rank needs.
ALWAYS = ("torch", "torch.distributed", "numpy", "pytest", "disttest_runner.rank.rank", "disttest_runner.rank.session")

# What single suites need beyond that: dear, so imported only where a suite asks for it, and if possible while an
# earlier suite is running.
TO_COMPILE = (
    *("torch._dynamo", "torch._functorch.aot_autograd", "torch._inductor.output_code"),
    # what a rank's first compilation imports otherwise: with aot_eager, too, torch imports all of Inductor
    *("torch._dynamo.backends.debugging", "torch._inductor.compile_fx", "torch.export._trace"),
)
OF_SUITE = {
    "c10d-spawn": ("torch.testing._internal.distributed.distributed_test",),
    "data-parallel": ("torch.distributed.fsdp", "torch.distributed.tensor.experimental", *TO_COMPILE),
    "fsdp-exec-order": ("torch.distributed.fsdp",),
    "fully-shard-autograd": ("torch.distributed.fsdp", "torch._dynamo"),
    "pipeline-schedules": (
        "torch.distributed.pipelining",
        *("torch.export._trace", "torch._functorch.aot_autograd", "torch._inductor.output_code"),  # what tracing needs
    ),
    "replicate-compile": ("torch.distributed.tensor.parallel", *TO_COMPILE),
}


def preload(suite: SuitePlan | RankOrder) -> tuple[str, ...]:
    """The modules that are worth importing before ranks are forked for a suite."""
    return sources.modules_to_preload(suite) if suite.root else OF_SUITE.get(suite.builtin, ())


def import_early(modules: Iterable[str]) -> None:
    """Import them ahead of the suite that needs them. A failure is the suite's to report, when it imports them."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:  # noqa: BLE001 - whatever a foreign module raises
            print(f"{module} cannot be imported ahead of its suite", flush=True)
            traceback.print_exc()


def environment(plan: RunPlan, suite: SuitePlan) -> dict[str, str]:
    """What must be set before a suite's modules are imported. The user's word comes last."""
    match suite.builtin:
        case "c10d-spawn":
            own = {"BACKEND": plan.backend, "WORLD_SIZE": str(plan.world_size)}
            own["INIT_METHOD"] = "file:///c10d-spawn"  # some of its tests run with it only; the store answers it
        case _:
            own = {}
    return own | dict(suite.env)
