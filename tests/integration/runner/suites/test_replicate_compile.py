"""The built-in suite `replicate-compile` on worlds of several shapes, case by case. Compiling takes its time."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.report import SuiteResult
from tests.support.gangs.gang import AgentGang, make_plan, only_suite, outcomes

WAYS = ("forward", "no_sync", "fp32", "bf16_hook", "fp16_hook", "backward_only")
BY_INDUCTOR = ("test_compile[forward]", "test_bucketing[coalesced]", "test_bucketing[concat]")
IN_PAIRS = "test_ddp_with_tensor_parallel"
ALL = {*(f"test_compile[{way}]" for way in WAYS), *BY_INDUCTOR, IN_PAIRS}
RUN_SECONDS = 1000  # a deadline: compilers slow down most of all where others want the processors


def run(
    folder: Path, *, nodes: int, ranks: int, select: str = "", environ: Mapping[str, str] | None = None
) -> SuiteResult:
    suite = SuitePlan(name="replicate-compile", builtin="replicate-compile", select=select)
    plan = make_plan(suite, nodes=nodes, ranks=ranks, case_seconds=300, run_seconds=RUN_SECONDS)
    gang = AgentGang(plan, folder, environ={"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), **(environ or {})})
    report = gang.run(seconds=RUN_SECONDS)
    assert report.verdict is Verdict.PASSED, gang.text
    return only_suite(report)


@pytest.mark.soak
def test_every_case_passes_on_two_nodes_of_two_ranks(tmp_path: Path) -> None:
    suite = run(tmp_path, nodes=2, ranks=2)
    assert len(ALL) == 9
    assert outcomes(suite) == dict.fromkeys(ALL, Outcome.PASSED)


@pytest.mark.soak
def test_cases_that_read_generated_code_pass_on_two_nodes(tmp_path: Path) -> None:
    suite = run(tmp_path, nodes=2, ranks=1, select="bucketing")
    assert outcomes(suite) == {"test_bucketing[coalesced]": Outcome.PASSED, "test_bucketing[concat]": Outcome.PASSED}


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "ranks"), [(1, 1), (1, 3)], ids=["1x1", "1x3"])
def test_tensor_parallel_pairs_are_not_run_in_a_world_without_two_of_them(
    nodes: int, ranks: int, tmp_path: Path
) -> None:
    suite = run(tmp_path, nodes=nodes, ranks=ranks, select="no_sync or fp16_hook or tensor_parallel")
    assert outcomes(suite) == {
        "test_compile[no_sync]": Outcome.PASSED,
        "test_compile[fp16_hook]": Outcome.PASSED,
        IN_PAIRS: Outcome.NOT_RUN,
    }
    (reason,) = [case.message for case in suite.cases if case.outcome is Outcome.NOT_RUN]
    assert reason == f"not run: pairs of ranks need an even world of at least 4, not {nodes * ranks}"


@pytest.mark.soak
def test_without_a_compiler_for_inductor_its_cases_are_skipped_at_once(tmp_path: Path) -> None:
    environ = {"CXX": "/no/such/g++"}
    suite = run(tmp_path, nodes=1, ranks=2, select="forward or bucketing or backward_only", environ=environ)
    skipped = dict.fromkeys(BY_INDUCTOR, Outcome.SKIPPED)
    assert outcomes(suite) == {**skipped, "test_compile[backward_only]": Outcome.PASSED}
    skipped_cases = [case for case in suite.cases if case.outcome is Outcome.SKIPPED]
    assert all(case.message.startswith("inductor needs a C++ compiler on CPUs") for case in skipped_cases), (
        skipped_cases
    )
    assert all(case.seconds < 5 for case in skipped_cases), skipped_cases
