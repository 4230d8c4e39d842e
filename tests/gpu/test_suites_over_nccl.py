"""Every built-in suite over NCCL, as large as this machine allows: a case passes or says why it did not run."""

import dataclasses
from pathlib import Path

import pytest

from disttest_contract.gang import suites
from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.outcomes import Outcome, Verdict
from tests.support.gangs.gang import AgentGang, builtin, case, make_plan, suite_of

pytestmark = pytest.mark.gpu


def over_nccl(*chosen: SuitePlan, ranks: int, case_seconds: int = 120) -> RunPlan:
    plan = make_plan(*chosen, nodes=1, ranks=ranks, rendezvous_seconds=120, case_seconds=case_seconds, run_seconds=1800)
    return dataclasses.replace(plan, backend="nccl")


@pytest.mark.parametrize("name", sorted(suites.BUILTIN))
def test_a_suite_is_green_over_nccl(name: str, world_size: int, environ: dict[str, str], tmp_path: Path) -> None:
    gang = AgentGang(over_nccl(builtin(name), ranks=world_size), tmp_path, environ=environ)
    report = gang.run(seconds=1800)
    assert report.verdict is Verdict.PASSED, gang.text
    assert report.versions["nccl"]
    assert all(case.message for suite in report.suites for case in suite.cases if case.outcome is Outcome.NOT_RUN)


FAULTS = """
import os, signal, torch
import torch.distributed as dist

def total(gang):
    tensor = torch.ones(1 << 20, device=gang.device)
    dist.all_reduce(tensor)
    return int(tensor[0])

def test_first(gang, process_group):
    assert total(gang) == gang.world_size

def test_killed(gang, process_group):
    if gang.rank == gang.world_size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    total(gang)

def test_after_the_crash(gang, process_group):
    assert total(gang) == gang.world_size

def test_hang(gang, process_group):
    if gang.rank != gang.world_size - 1:
        total(gang)
        torch.cuda.synchronize()

def test_after_the_hang(gang, process_group):
    assert total(gang) == gang.world_size
"""


def test_crashes_and_hangs_in_nccl_are_survived_and_blamed(
    world_size: int, environ: dict[str, str], tmp_path: Path
) -> None:
    if world_size < 2:
        pytest.skip("a fault that has victims needs two ranks")
    gang = AgentGang(
        over_nccl(suite_of(tmp_path / "suite", FAULTS), ranks=world_size, case_seconds=30), tmp_path, environ=environ
    )
    report = gang.run(seconds=600)
    last = world_size - 1
    assert [one.outcome for one in report.suites[0].cases] == [
        Outcome.PASSED,
        Outcome.CRASHED,
        Outcome.PASSED,
        Outcome.HUNG,
        Outcome.PASSED,
    ], gang.text
    assert case(report, "test_killed").ranks == (last,)
    assert last not in case(report, "test_hang").stacks


def test_the_preflight_knows_the_gpus(world_size: int, environ: dict[str, str], tmp_path: Path) -> None:
    source = "def test_it(gang, process_group): assert gang.device.type == 'cuda'\n"
    report = AgentGang(
        over_nccl(suite_of(tmp_path / "suite", source), ranks=world_size), tmp_path, environ=environ
    ).run()
    assert report.verdict is Verdict.PASSED
    (facts,) = report.preflight
    assert facts.gpus
    assert facts.driver
    assert facts.cuda_driver
