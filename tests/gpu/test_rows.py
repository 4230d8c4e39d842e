"""The rows of `make gpu`, the most important first. What a gang of all ranks reports is shared by several rows."""

from collections.abc import Callable

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.network_transport import NetworkTransport
from disttest_contract.results.report import CaseResult, Report
from disttest_contract.text import formatting
from disttest_contract.text.formatting import BYTES_PER_SECOND, counted, show_bytes
from tests.gpu.conftest import Prover
from tests.support.gangs.gang import builtin, case, suite_of

Detail = Callable[[str], None]
row = pytest.mark.row
ABSENT = "all_reduce number 2 of the default group; rank 0 on local-0 has not joined it"
# Compiled suites last: they take minutes.
BY_TIME = (
    *("fully-shard-autograd", "pipeline-schedules", "fsdp-exec-order", "data-parallel", "c10d-spawn"),
    "replicate-compile",
)

FIRST = """
import torch
import torch.distributed as dist

def test_all_reduce(gang, process_group):
    tensor = torch.full((1 << 20,), gang.rank + 1, dtype=torch.int64, device=gang.device)
    dist.all_reduce(tensor)
    assert tensor.unique().tolist() == [gang.world_size * (gang.world_size + 1) // 2]
"""

FAULTS = """
import os, signal, torch
import torch.distributed as dist

def add(gang):
    tensor = torch.ones(1 << 20, device=gang.device)
    dist.all_reduce(tensor)
    return tensor

def is_last(gang):
    return gang.rank == gang.world_size - 1

def is_good(gang):
    return int(add(gang)[0]) == gang.world_size

def test_killed(gang, process_group):
    if is_last(gang):
        os.kill(os.getpid(), signal.SIGKILL)
    is_good(gang)

def test_after_killed(gang, process_group):
    assert is_good(gang)

def test_device_assert(gang):
    if is_last(gang):
        torch.ones(4, device=gang.device)[torch.tensor([9], device=gang.device)]

def test_after_device_assert(gang, process_group):
    assert is_good(gang)

def test_never_joins(gang, process_group):
    if not is_last(gang):
        add(gang)

def test_after_never_joins(gang, process_group):
    assert is_good(gang)
"""

HANGS = """
import time, torch
import torch.distributed as dist

def add(gang):
    tensor = torch.ones(4, device=gang.device)
    dist.all_reduce(tensor)
    return tensor.sum().item()

def test_absent(gang, process_group):
    add(gang)
    if gang.rank == 0:
        time.sleep(1000)
    add(gang)

def test_another_operation(gang, process_group):
    add(gang)
    if gang.rank == 0:
        tensor = torch.ones(4, device=gang.device)
        dist.broadcast(tensor, 0)
        tensor.sum().item()
    add(gang)
"""


@pytest.fixture(scope="module")
def first(prover: Prover) -> Report:
    return prover.run(suite_of(prover.folder / "first", FIRST), seconds=120)


@pytest.fixture(scope="module")
def faults(prover: Prover) -> Report:
    return prover.run(suite_of(prover.folder / "faults", FAULTS), seconds=180, case_seconds=prover.hang_seconds)


@pytest.fixture(scope="module")
def hangs(prover: Prover) -> Report:
    prover.need_peers()
    return prover.run(suite_of(prover.folder / "hangs", HANGS), seconds=180, case_seconds=prover.hang_seconds)


@pytest.fixture(scope="module")
def collectives(prover: Prover) -> Report:
    return prover.run(builtin("collectives"), seconds=120)


def ended(report: Report, name: str) -> CaseResult:
    """The case, if the run reached it and the time of all rows was not over before."""
    if not any(suite.cases for suite in report.suites):
        pytest.fail(outcome_of(report))
    found = case(report, name)
    if found.outcome is Outcome.NOT_RUN:
        pytest.skip(f"there was no time left for it: {found.message}")
    return found


def outcome_of(report: Report) -> str:
    return f"{report.verdict} ({report.reason}): {report.message}"


def described(found: CaseResult) -> str:
    return f"{found.id} {found.outcome}: {formatting.summary_line(found.message)}"


def expect_next_passes(report: Report, name: str) -> None:
    found = ended(report, f"test_after_{name}")
    assert found.outcome is Outcome.PASSED, described(found)


@row("Preflight: GPUs, driver and CUDA are read and support torch")
def test_preflight(prover: Prover, first: Report, detail: Detail) -> None:
    prover.need_gpus()
    [facts] = first.preflight
    assert facts.gpus
    assert facts.driver
    assert facts.cuda_driver
    assert first.reason not in (Reason.DRIVER_TOO_OLD, Reason.GPU_UNHEALTHY, Reason.INSUFFICIENT_GPUS), first.message
    detail(counted(len(facts.gpus), "GPU"))


@row("An all_reduce of all ranks is right")
def test_all_reduce(prover: Prover, first: Report, detail: Detail) -> None:
    assert first.verdict is Verdict.PASSED, outcome_of(first)
    if prover.is_on_gpus:
        assert first.versions["nccl"]
    detail(counted(prover.ranks, "rank"))
    prover.need_peers()


@row("The report names NCCL's transport")
def test_transport(prover: Prover, first: Report, detail: Detail) -> None:
    prover.need_gpus()
    prover.need_peers()
    assert first.transport.used.transport is not NetworkTransport.UNKNOWN, "NCCL's log does not show the transport"
    detail(prover.table.machine.transport)


@row("A rank that never joins a collective hangs its case; the next one passes")
def test_never_joins(prover: Prover, faults: Report) -> None:
    prover.need_peers()
    found = ended(faults, "test_never_joins")
    assert found.outcome is Outcome.HUNG, described(found)
    expect_next_passes(faults, "never_joins")


@row("A device-side assert fails its case and rank; the next case passes")
def test_device_assert(prover: Prover, faults: Report) -> None:
    found = ended(faults, "test_device_assert")
    assert (found.outcome, found.ranks) == (Outcome.FAILED, (prover.ranks - 1,)), described(found)
    if prover.is_on_gpus:
        assert "device-side assert" in found.message, described(found)
    expect_next_passes(faults, "device_assert")


@row("A killed rank crashes its case and is at fault; the next case passes")
def test_crash(prover: Prover, faults: Report) -> None:
    found = ended(faults, "test_killed")
    assert (found.outcome, found.ranks) == (Outcome.CRASHED, (prover.ranks - 1,)), described(found)
    expect_next_passes(faults, "killed")


@row("A hang names the collective and the rank that has not joined it")
def test_hang(hangs: Report) -> None:
    found = ended(hangs, "test_absent")
    assert (found.outcome, found.ranks) == (Outcome.HUNG, (0,)), described(found)
    assert ABSENT in found.message, described(found)


@row("A hang with different collectives names both")
def test_another_operation(hangs: Report) -> None:
    found = ended(hangs, "test_another_operation")
    assert found.outcome is Outcome.HUNG, described(found)
    assert "ranks disagree about collective number 2" in found.message, described(found)


@row("A hang contains the output of NCCL's RAS service")
def test_ras(prover: Prover, hangs: Report) -> None:
    prover.need_gpus()
    found = ended(hangs, "test_absent")
    assert found.diagnosis is not None, described(found)
    assert "communicator" in found.diagnosis.ras.lower(), f"its output: {found.diagnosis.ras!r:.200}"


@row("Suite collectives passes")
def test_collectives(prover: Prover, collectives: Report, detail: Detail) -> None:
    expect_passed(prover, collectives, detail)


@row("Bandwidth is measured with CUDA events")
def test_bandwidth(prover: Prover, collectives: Report, detail: Detail) -> None:
    prover.need_gpus()
    prover.need_peers()
    measured = [one for suite in collectives.suites for found in suite.cases for one in found.measurements]
    if not measured and collectives.verdict is Verdict.TIMED_OUT:
        pytest.skip("there was no time left for it")
    assert measured, outcome_of(collectives)
    largest = max((one for one in measured if one.collective == "all_reduce"), key=lambda one: one.size_bytes)
    assert largest.seconds > 0
    assert largest.wrong_elements == 0
    unit, name = BYTES_PER_SECOND[0]
    speed = largest.bus_bandwidth_bytes_per_second / unit
    detail(f"all_reduce of {show_bytes(largest.size_bytes)} {largest.dtype}: {speed:.1f} {name}")


@row("Suite {name} passes")
@pytest.mark.parametrize("name", BY_TIME)
def test_suite(name: str, prover: Prover, detail: Detail) -> None:
    expect_passed(prover, prover.run(builtin(name), seconds=150), detail)


def expect_passed(prover: Prover, report: Report, detail: Detail) -> None:
    """Every case that ran has passed, and those that did not run have a reason."""
    assert not report.failures, f"{len(report.failures)} failed, first {described(report.failures[0][1])}"
    counts = ", ".join(f"{report.counts[outcome]} {outcome}" for outcome in Outcome if report.counts[outcome])
    name = report.suites[0].name if report.suites else ""
    if report.verdict is Verdict.TIMED_OUT:
        pytest.skip(f"only {counts or 'nothing'} before its time was over. Run disttest run --suite {name}")
    if report.reason is Reason.NO_CASES_PASSED and prover.ranks == 1:
        pytest.skip(f"{counts} with one rank. {prover.table.ranks.missing}")
    assert report.verdict is Verdict.PASSED, outcome_of(report)
    cases = [one for suite in report.suites for one in suite.cases]
    assert all(one.message for one in cases if one.outcome is Outcome.NOT_RUN), "a case has no reason for notRun"
    detail(counts)
