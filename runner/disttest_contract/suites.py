"""The suites that every runner carries: known without torch, so that a wrong name is refused before a gang starts."""

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
MEASURING = "collectives"  # the one that times what thresholds are about


def known() -> str:
    """The names for an error message."""
    return ", ".join(sorted(BUILTIN))
