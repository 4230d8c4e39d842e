"""A case ends when its work on the device has ended: work that fails or never ends is not a pass, nor the next case's.

Over an asynchronous stub, where calls return before their work is done, as on CUDA.
"""

import pytest

from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from tests.support.gangs import stub_device
from tests.support.gangs.gang import AgentGang, case, make_plan, suite_of

SUITE = """
import os, pathlib, pytest, torch
import torch.distributed as dist
from tests.support.gangs import stub_device

ASSERT = "device-side assert triggered"

def fail_on_1(gang):
    if gang.rank == 1:
        stub_device.fail(ASSERT)

def test_good(process_group):
    dist.all_reduce(torch.ones(1))

def test_rank_1_does_not_join(gang, process_group):
    if gang.rank != 1:
        dist.all_reduce(torch.ones(1))

def test_after_that(process_group):
    dist.all_reduce(torch.ones(1))

def test_assert(gang):
    fail_on_1(gang)

def test_after_assert(gang):
    pass

@pytest.mark.xfail
def test_xfailed(gang):
    fail_on_1(gang)
    assert False

def test_skipped(gang):
    fail_on_1(gang)
    pytest.skip("not today")

def test_raises(gang):
    with pytest.raises(ValueError):
        fail_on_1(gang)
        raise ValueError

@pytest.fixture
def untidy(gang):
    yield
    fail_on_1(gang)

def test_teardown(untidy):
    pass

def test_assertion_before_others_join(gang, process_group):
    if gang.rank == 0:
        dist.all_reduce(torch.ones(1))
        assert gang.rank, "rank 0 is wrong"

PROCESS = pathlib.Path(__file__).with_name(f"process-{os.environ['RANK']}")

def poison_1(gang):
    PROCESS.write_text(str(os.getpid()))
    if gang.rank == 1:
        stub_device.poison()

def healthy(gang):
    assert int(PROCESS.read_text()) != os.getpid()
    stub_device.stream().query()
    dist.all_reduce(torch.ones(1))

def test_assertion_poisoned(gang):
    poison_1(gang)
    assert gang.rank != 1, "rank 1 is wrong"

def test_after_poisoned_1(gang, process_group):
    healthy(gang)

@pytest.fixture
def broken(gang):
    poison_1(gang)
    assert gang.rank != 1, "rank 1 is wrong"

def test_setup_poisoned(broken):
    pass

def test_after_poisoned_2(gang, process_group):
    healthy(gang)
"""
POISONED = {"test_assertion_poisoned": Outcome.FAILED, "test_setup_poisoned": Outcome.ERRORED}
HEALTHY = ("test_good", "test_after_that", "test_after_assert", "test_after_poisoned_1", "test_after_poisoned_2")
BAD_ON_1 = ("test_assert", "test_xfailed", "test_skipped", "test_raises", "test_teardown")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("stub")
    plan = make_plan(suite_of(folder / "suite", SUITE), nodes=1, case_seconds=8, backend=stub_device.BACKEND)
    return AgentGang(plan, folder, environ=stub_device.environment(folder / "hooks")).run()


@pytest.mark.parametrize("name", HEALTHY)
def test_cases_whose_work_ends_pass(report: Report, name: str) -> None:
    assert case(report, name).outcome is Outcome.PASSED, case(report, name).message


@pytest.mark.parametrize("name", BAD_ON_1)
def test_an_error_that_no_call_has_raised_fails_the_case_and_the_rank(report: Report, name: str) -> None:
    found = case(report, name)
    assert (found.outcome, found.ranks) == (Outcome.FAILED, (1,)), found
    assert "RuntimeError: device-side assert triggered" in found.message


def test_a_rank_that_never_joins_a_collective_hangs_the_case(report: Report) -> None:
    assert case(report, "test_rank_1_does_not_join").outcome is Outcome.HUNG


def test_an_assertion_is_reported_although_work_of_its_rank_never_ends(report: Report) -> None:
    found = case(report, "test_assertion_before_others_join")
    assert (found.outcome, found.ranks) == (Outcome.FAILED, (0,)), found
    assert "rank 0 is wrong" in found.message


@pytest.mark.parametrize(("name", "outcome"), POISONED.items())
def test_a_case_that_fails_on_a_poisoned_device_reports_both_errors(
    report: Report, name: str, outcome: Outcome
) -> None:
    found = case(report, name)
    assert (found.outcome, found.ranks) == (outcome, (1,)), found
    assert "rank 1 is wrong" in found.message
    assert "the device reported after the case: RuntimeError: CUDA error: device-side assert" in found.message
