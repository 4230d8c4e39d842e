"""The built-in suites. Does not import torch, so a wrong name is rejected before a gang starts."""

from collections.abc import Mapping
from types import MappingProxyType

SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "c10d-spawn": "unmodified torch.distributed tests of the installed torch",
        "collectives": "correctness and bandwidth of every collective with every data type",
        "data-parallel": "DTensor, FSDP2 and replicate compared with DDP and one process",
        "fsdp-exec-order": "detection of ranks that gather FSDP1 parameters in a different order",
        "fully-shard-autograd": "FSDP2 training compared with the whole model, with unused outputs",
        "pipeline-schedules": "outputs and gradients of pipeline schedules compared with the whole model",
        "replicate-compile": "gradients of compiled DDP and replicate compared with eager mode",
    }
)
# name -> module or package that pytest collects
BUILTIN: Mapping[str, str] = MappingProxyType(
    {name: f"disttest_runner.suites.{name.replace('-', '_')}" for name in SUMMARIES}
)
MEASURING = "collectives"  # the suite whose measurements thresholds are about


def known() -> str:
    """Return the names for an error message."""
    return ", ".join(sorted(BUILTIN))
