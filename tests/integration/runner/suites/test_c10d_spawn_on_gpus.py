"""Cases of c10d-spawn that need GPUs: they end with the reason where a node has too few, or no compiler for them."""

from pathlib import Path

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult
from tests.support.gangs.gang import AgentGang, make_plan, only_suite

# After the modules have been imported, which ask GPUs for their properties.
PRETENDED = """
import torch
import torch.testing._internal.common_device_type
import torch.utils._triton
from disttest_runner.suites.c10d_spawn import *

torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 2
torch.utils._triton.has_triton = lambda: True
"""


def run(folder: Path, suite: SuitePlan, *, ranks: int) -> CaseResult:
    report = AgentGang(make_plan(suite, nodes=1, ranks=ranks, case_seconds=60), folder).run()
    (case,) = only_suite(report).cases
    return case


def test_a_case_that_needs_more_gpus_than_torch_counts_is_not_run(tmp_path: Path) -> None:
    """Torch has reasons for up to 8 GPUs."""
    select = "test_monitored_barrier_allreduce_hang and not wait_all_ranks"
    case = run(tmp_path, SuitePlan(name="spawn", builtin="c10d-spawn", select=select), ranks=9)
    assert (case.outcome, case.message) == (Outcome.NOT_RUN, "not run: the case requires 9 GPUs on each node")


def test_a_case_that_is_compiled_for_gpus_is_skipped_without_a_c_compiler(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_spawn.py").write_text(PRETENDED)
    environ = {"BACKEND": "gloo", "WORLD_SIZE": "2", "INIT_METHOD": "file:///c10d-spawn", "CC": "/no/such/cc"}
    plan = SuitePlan(
        name="mine", directory=str(suite), select="test_ddp_compile_static_graph", env=tuple(environ.items())
    )
    case = run(tmp_path, plan, ranks=2)
    reason = "triton needs a C compiler on GPUs, but finds no /no/such/cc"
    assert (case.outcome, case.message) == (Outcome.SKIPPED, reason)
