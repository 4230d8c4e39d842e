"""The built-in suites. Does not import torch, so a wrong name is rejected before a gang starts."""

from collections.abc import Mapping
from types import MappingProxyType

# name -> module or package that pytest collects
BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        "c10d-spawn": "disttest_runner.suites.c10d_spawn",
        "collectives": "disttest_runner.suites.collectives",
        "data-parallel": "disttest_runner.suites.data_parallel",
        "fsdp-exec-order": "disttest_runner.suites.fsdp_exec_order",
        "fully-shard-autograd": "disttest_runner.suites.fully_shard_autograd",
        "pipeline-schedules": "disttest_runner.suites.pipeline_schedules",
        "replicate-compile": "disttest_runner.suites.replicate_compile",
    }
)
SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "c10d-spawn": "torch's own cases of torch.distributed, unmodified, from the installed torch",
        "collectives": "every collective with every type, element by element, and how fast it is",
        "data-parallel": "DTensor, FSDP2 and replicate train as DDP and as one process on all data",
        "fsdp-exec-order": "FSDP1 notices ranks that gather parameters in another order",
        "fully-shard-autograd": "FSDP2 trains as the whole model, whatever of its outputs is used",
        "pipeline-schedules": "pipelines of every schedule give outputs and gradients of the whole model",
        "replicate-compile": "compiled DDP and replicate give the gradients of eager ones",
    }
)
MEASURING = "collectives"  # the suite whose measurements thresholds are about


def known() -> str:
    """Return the names for an error message."""
    return ", ".join(sorted(BUILTIN))
