"""The built-in suites over an asynchronous stub, where a call returns before its work is done, as on CUDA.

`c10d-spawn` is not one of them: torch's own test file knows torch's backends only. `fsdp-exec-order` needs a GPU.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.results.report import CaseResult, SuiteResult
from tests.support.gangs import stub_device
from tests.support.gangs.gang import AgentGang, make_plan
from tests.support.gangs.sabotaged import can_sabotage
from tests.support.gangs.stub_device import WorkFault

pytestmark = can_sabotage  # the stub wraps kernels, too

SUITES = ("collectives", "fully-shard-autograd", "pipeline-schedules", "data-parallel", "replicate-compile")
COMPILED = ("data-parallel", "replicate-compile")  # compiled code reads results without torch's dispatcher
QUICK = "float32-1031 or float32-4KiB or not (test_every_element or test_bandwidth)"
REDUCE = "reduce-float32-1031 and not all_reduce and not reduce_scatter"  # of it, rank 0 does not read the result


def run(folder: Path, suite: SuitePlan, environ: Mapping[str, str], *, case_seconds: int = 150) -> SuiteResult:
    plan = make_plan(suite, nodes=1, ranks=2, case_seconds=case_seconds, run_seconds=1200, backend=stub_device.BACKEND)
    environ = stub_device.environment(folder / "hooks", **environ)
    return AgentGang(plan, folder, environ=environ).run(1200).suites[0]


def test_collectives_pass(tmp_path: Path) -> None:
    result = run(tmp_path, SuitePlan(name="collectives", builtin="collectives", select=QUICK), {})
    assert result.verdict is Verdict.PASSED, result.message
    assert {case.outcome for case in result.cases} == {Outcome.PASSED}


@pytest.mark.soak
@pytest.mark.parametrize("name", SUITES)
def test_every_case_passes(name: str, tmp_path: Path) -> None:
    waits = {stub_device.WAITS: "1"} if name in COMPILED else {}
    result = run(tmp_path, SuitePlan(name=name, builtin=name), waits)
    assert result.verdict is Verdict.PASSED, [case for case in result.cases if case.outcome in BAD] or result.message


def reduced(folder: Path, fault: WorkFault, *, is_blind: bool = False) -> CaseResult:
    """The result of a case of `collectives` whose last reduction has a fault on rank 0."""
    suite = SuitePlan(name="collectives", builtin="collectives", select=REDUCE)
    environ = {stub_device.FAULT: f"{fault}:0:reduce_:2", **({stub_device.BLIND: "1"} if is_blind else {})}
    (case,) = run(folder, suite, environ, case_seconds=4).cases
    return case


@pytest.mark.parametrize(
    ("fault", "outcome"), [(WorkFault.FAILS, Outcome.FAILED), (WorkFault.NEVER_ENDS, Outcome.HUNG)]
)
def test_work_that_does_not_end_well_is_a_false_green_without_synchronization_only(
    fault: WorkFault, outcome: Outcome, tmp_path: Path
) -> None:
    assert reduced(tmp_path / "blind", fault, is_blind=True).outcome is Outcome.PASSED
    found = reduced(tmp_path / "seeing", fault)
    assert (found.outcome, found.ranks) == (outcome, (0,)), found


@pytest.mark.soak
def test_a_rank_that_does_not_join_is_blamed(tmp_path: Path) -> None:
    found = reduced(tmp_path, WorkFault.NOT_JOINED)
    assert (found.outcome, found.ranks) == (Outcome.HUNG, (0,)), found


@pytest.mark.soak
def test_work_that_ends_late_is_waited_for(tmp_path: Path) -> None:
    found = reduced(tmp_path, WorkFault.LATE)
    assert found.outcome is Outcome.PASSED
    assert found.seconds > stub_device.VERY_LATE_SECONDS
