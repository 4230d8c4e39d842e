"""Suites with their own environment: set before any import, and removed when the next suite begins."""

import dataclasses
from pathlib import Path

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

SOURCE = """
import os
import torch.distributed as dist
def test_it(gang, process_group):
    assert os.environ.get("COLOUR") == {colour!r}
    assert dist.get_debug_level().name == {level!r}  # torch reads it when it is imported
"""


def test_each_suite_runs_with_its_own_environment(tmp_path: Path) -> None:
    plain = suite_of(tmp_path / "plain", SOURCE.format(colour=None, level="OFF"), "plain")
    red = suite_of(tmp_path / "red", SOURCE.format(colour="red", level="DETAIL"), "red")
    red = dataclasses.replace(red, env=(("COLOUR", "red"), ("TORCH_DISTRIBUTED_DEBUG", "DETAIL")))
    again = dataclasses.replace(plain, name="again")
    gang = AgentGang(make_plan(plain, red, again), tmp_path)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text


def test_settings_that_differ_are_in_the_report_and_those_of_a_later_suite_too(tmp_path: Path) -> None:
    source = "def test_it(gang): pass\n"
    first, second = (suite_of(tmp_path / name, source, name) for name in ("first", "second"))
    second = dataclasses.replace(second, env=(("NCCL_DEBUG", "TRACE"),))
    built_in = SuitePlan(name="barrier", builtin="collectives", select="test_barrier")
    environ = {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "TORCH_NCCL_RETHROW_CUDA_ERRORS": "1"}
    gang = AgentGang(make_plan(first, second, built_in, nodes=1), tmp_path, environ=environ)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    assert report.settings == {
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
        "TORCH_NCCL_RETHROW_CUDA_ERRORS": "1",
        "NCCL_DEBUG (second)": "TRACE",
        "float32 matrix products": "float32 in built-in suites, although TF32 is allowed (precision 'high')",
    }


def test_an_environment_in_which_torch_cannot_be_imported_is_an_error_of_its_suite_alone(tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "torch.py").write_text("raise ImportError('this is not torch')\n")
    source = "def test_it(process_group): pass\n"
    suites = [suite_of(tmp_path / name, source, name) for name in ("first", "second", "third")]
    suites[1] = dataclasses.replace(suites[1], env=(("PYTHONPATH", str(tmp_path / "hooks")),))
    gang = AgentGang(make_plan(*suites), tmp_path)
    report = gang.run()
    assert [(suite.verdict, suite.reason) for suite in report.suites] == [
        (Verdict.PASSED, Reason.ALL_CASES_PASSED),
        (Verdict.ERRORED, Reason.COLLECTION_FAILED),
        (Verdict.PASSED, Reason.ALL_CASES_PASSED),
    ], gang.text
    assert "the process that imports torch and starts the ranks ended" in report.suites[1].message
    assert "[zygote] ImportError: this is not torch" in gang.text
    assert [case.outcome for case in report.suites[2].cases] == [Outcome.PASSED]
