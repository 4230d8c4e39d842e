"""The modules that a zygote imports before it forks ranks, so that ranks do not spend time and memory on them.

Standard library only: agents import it too.
"""

import importlib
import re
import traceback
from collections.abc import Iterable
from pathlib import Path

from disttest_contract.gang.plan import SuitePlan
from disttest_runner.cases import sources

# What every rank needs.
ALWAYS = ("torch", "torch.distributed", "numpy", "pytest", "disttest_runner.rank.rank", "disttest_runner.rank.session")

TO_COMPILE = (
    *("torch._dynamo", "torch._functorch.aot_autograd", "torch._inductor.output_code"),
    # imported by a rank's first compilation otherwise: torch imports all of Inductor with aot_eager, too
    *("torch._dynamo.backends.debugging", "torch._inductor.compile_fx", "torch.export._trace"),
)
# Expensive modules of single suites, imported only for them, and while an earlier suite is running if possible.
OF_SUITE = {
    "c10d-spawn": ("torch.testing._internal.distributed.distributed_test",),
    "data-parallel": ("torch.distributed.fsdp", "torch.distributed.tensor.experimental", *TO_COMPILE),
    "fsdp-exec-order": ("torch.distributed.fsdp",),
    "fully-shard-autograd": ("torch.distributed.fsdp", "torch._dynamo"),
    "pipeline-schedules": (
        "torch.distributed.pipelining",
        *("torch.export._trace", "torch._functorch.aot_autograd", "torch._inductor.output_code"),  # for tracing
    ),
    "replicate-compile": ("torch.distributed.tensor.parallel", *TO_COMPILE),
}
# Safe before a fork, since they do not query the CUDA driver. common_device_type and what imports it do.
SAFE_IN_ZYGOTES = (
    "torch.testing._internal.common_utils",
    "torch.testing._internal.common_distributed",
    "torch.testing._internal.common_fsdp",
    "torch.testing._internal.distributed._tensor.common_dtensor",
    "torch.testing._internal.distributed.fake_pg",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
)
IMPORT = re.compile(r"^\s*(?:from|import)\s+(torch[\w.]*)", re.MULTILINE)


def modules_of_suite(suite: SuitePlan) -> tuple[str, ...]:
    """Return the modules to import before ranks are forked for a suite; ranks report files that cannot be read."""
    if not suite.root:
        return OF_SUITE.get(suite.builtin, ())
    try:
        texts = [file.read_text(errors="replace") for file in sources.find(Path(suite.root), suite.files)]
    except (OSError, sources.SourceError):
        return ()
    named = {name for text in texts for name in IMPORT.findall(text)}
    return tuple(safe for safe in SAFE_IN_ZYGOTES if any(f"{name}.".startswith(f"{safe}.") for name in named))


def import_modules(modules: Iterable[str]) -> None:
    """Import the modules. A failure is only logged: the suite reports it when it imports the module itself."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:  # noqa: BLE001 - a foreign module can raise anything
            print(f"{module} cannot be imported before its suite starts", flush=True)
            traceback.print_exc()
