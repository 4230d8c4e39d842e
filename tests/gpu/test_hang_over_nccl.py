"""The hang kit over NCCL: its flight recorder, its RAS service, a rank whose GPU work never ends."""

from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome
from tests.gpu.test_suites_over_nccl import over_nccl
from tests.support.gangs.gang import AgentGang, case, suite_of

pytestmark = pytest.mark.gpu

SUITE = """
import time, torch
import torch.distributed as dist

def add(gang):
    dist.all_reduce(torch.ones(4, device=gang.device))
    torch.cuda.synchronize()

def test_a_rank_never_comes(gang, process_group):
    add(gang)
    if gang.rank == 0:
        time.sleep(1000)
    add(gang)

def test_another_operation(gang, process_group):
    add(gang)
    if gang.rank == 0:
        dist.broadcast(torch.ones(4, device=gang.device), 0)
        torch.cuda.synchronize()
    add(gang)
"""


def test_a_hang_in_nccl_names_the_collective_and_who_never_joined_it(
    world_size: int, environ: dict[str, str], tmp_path: Path
) -> None:
    if world_size < 2:
        pytest.skip("a fault that has victims needs two ranks")
    plan = over_nccl(suite_of(tmp_path / "suite", SUITE), ranks=world_size, case_seconds=30)
    gang = AgentGang(plan, tmp_path, environ=environ)
    report = gang.run(seconds=600)
    absent = case(report, "test_a_rank_never_comes")
    assert (absent.outcome, absent.ranks) == (Outcome.HUNG, (0,)), gang.text
    assert "wait" in absent.message
    assert "all_reduce number 2 of the default group; rank 0 on local-0 has not joined it" in absent.message
    assert absent.diagnosis is not None
    assert "communicator" in absent.diagnosis.ras.lower()
    other = case(report, "test_another_operation")
    assert other.outcome is Outcome.HUNG
    assert "ranks disagree about collective number 2" in other.message
