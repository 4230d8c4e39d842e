"""One gang and many faults: each is blamed on the right rank, and the next case runs in good health."""

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.report import Report
from tests.integration.runner.gang import Gang, case, make_plan, only_suite, suite_of

SUITE = '''
import os, signal, threading, time, unittest
import pytest, torch
import torch.distributed as dist

def add(process_group):
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return int(tensor)

def test_first(gang, process_group):
    assert add(process_group) == gang.world_size

def test_exit_0(gang, process_group):
    if gang.rank == 3:
        os._exit(0)
    add(process_group)

def test_after_exit_0(gang, process_group):
    assert add(process_group) == gang.world_size
    assert gang.generation == 2

def test_killed(gang, process_group):
    if gang.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    add(process_group)

def test_segfault_everywhere(gang):
    os.kill(os.getpid(), signal.SIGSEGV)

def test_assert_on_one(gang, process_group):
    assert gang.rank != 2, "two is odd today"
    add(process_group)

def test_assert_everywhere(gang):
    assert gang.rank < 0, "nobody is below"

def test_hang(gang, process_group):
    def wait_for_ever():
        time.sleep(1000)
    if gang.rank == 1:
        wait_for_ever()
    if gang.rank == 0:
        return
    add(process_group)

def test_after_hang(gang, process_group):
    assert add(process_group) == gang.world_size

@pytest.fixture
def broken(gang):
    assert gang.rank != 3, "fixture broke"

def test_setup(broken):
    pass

@pytest.fixture
def untidy(gang):
    yield
    assert gang.rank != 0, "could not tidy up"

def test_teardown(untidy):
    pass

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass

def test_skipped_on_one(gang):
    if gang.rank == 0:
        pytest.skip("zero rests")

@pytest.mark.xfail(reason="known to fail", strict=False)
def test_xfailed():
    raise ValueError

@pytest.mark.xfail(reason="thought to fail", strict=False)
def test_xpassed():
    pass

@pytest.mark.xfail(reason="must fail", strict=True)
def test_strict_xpassed():
    pass

def test_system_exit(gang):
    if gang.rank == 1:
        raise SystemExit(5)

def test_dies_after_its_result(gang):
    if gang.rank == 2:
        threading.Timer(0.0, os._exit, (7,)).start()

def test_waits_a_little():
    time.sleep(0.5)

class TestUnit(unittest.TestCase):
    def test_unittest(self):
        assert "DISTTEST_NONCE" not in os.environ
        assert os.environ["WORLD_SIZE"] == "4"

def test_the_agent_is_hidden(gang):
    zygote = os.getppid()
    with open(f"/proc/{zygote}/status") as status:
        agent = next(line.split()[1] for line in status if line.startswith("PPid"))
    if os.getuid() != 0:
        with pytest.raises(PermissionError):
            open(f"/proc/{agent}/environ").read()
    for variables in (f"/proc/{zygote}/environ", "/proc/self/environ"):
        with open(variables) as file:
            assert "DISTTEST_NONCE" not in file.read()

@pytest.mark.parametrize("turn", [1, 2])
def test_own_group(turn):
    """A plain file makes its own group from the environment, case after case."""
    if dist.is_initialized():
        dist.destroy_process_group()
    for _ in range(2):
        dist.init_process_group("gloo")
        assert add(None) == 4
        dist.destroy_process_group()

def test_group_that_is_left_behind():
    dist.init_process_group("gloo")
    assert add(None) == 4

def test_group_that_is_destroyed(gang, process_group):
    assert add(process_group) == gang.world_size
    dist.destroy_process_group()

def test_last(gang, process_group):
    assert add(process_group) == gang.world_size
    print("the last one ran", flush=True)
'''


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Gang:
    folder = tmp_path_factory.mktemp("faults")
    gang = Gang(make_plan(suite_of(folder / "suite", SUITE), case_seconds=5), folder)
    gang.run()
    return gang


@pytest.fixture(scope="module")
def report(gang: Gang) -> Report:
    return gang.report()


def test_every_case_has_its_outcome(report: Report, gang: Gang) -> None:
    expected = {
        "test_first": Outcome.PASSED,
        "test_exit_0": Outcome.CRASHED,
        "test_after_exit_0": Outcome.PASSED,
        "test_killed": Outcome.CRASHED,
        "test_segfault_everywhere": Outcome.CRASHED,
        "test_assert_on_one": Outcome.FAILED,
        "test_assert_everywhere": Outcome.FAILED,
        "test_hang": Outcome.HUNG,
        "test_after_hang": Outcome.PASSED,
        "test_setup": Outcome.ERRORED,
        "test_teardown": Outcome.ERRORED,
        "test_skipped": Outcome.SKIPPED,
        "test_skipped_on_one": Outcome.SKIPPED,
        "test_xfailed": Outcome.XFAILED,
        "test_xpassed": Outcome.XPASSED,
        "test_strict_xpassed": Outcome.FAILED,
        "test_system_exit": Outcome.FAILED,
        "test_dies_after_its_result": Outcome.CRASHED,
        "test_waits_a_little": Outcome.PASSED,
        "test_unittest": Outcome.PASSED,
        "test_the_agent_is_hidden": Outcome.PASSED,
        "test_own_group[1]": Outcome.PASSED,
        "test_own_group[2]": Outcome.PASSED,
        "test_group_that_is_left_behind": Outcome.PASSED,
        "test_group_that_is_destroyed": Outcome.PASSED,
        "test_last": Outcome.PASSED,
    }
    found = {one.id.split("::")[-1]: one.outcome for one in only_suite(report).cases}
    assert found == expected, gang.text


def test_a_hang_speaks_for_the_run(report: Report) -> None:
    assert (report.verdict, report.reason) == (Verdict.HUNG, Reason.CASES_HUNG)


def test_a_rank_that_leaves_with_exit_code_0_in_mid_case_has_crashed(report: Report) -> None:
    result = case(report, "test_exit_0")
    assert (result.ranks, result.nodes, result.exit_code, result.signal) == ((3,), ("local-1",), 0, "")
    assert "rank 3 on local-1 left with exit code 0" in result.message


def test_a_killed_rank_is_named_with_its_signal(report: Report) -> None:
    result = case(report, "test_killed")
    assert (result.ranks, result.nodes, result.exit_code, result.signal) == ((1,), ("local-0",), None, "SIGKILL")


def test_ranks_that_die_of_the_same_cause_are_all_named(report: Report) -> None:
    result = case(report, "test_segfault_everywhere")
    assert (result.ranks, result.signal) == ((0, 1, 2, 3), "SIGSEGV")


def test_peers_that_wait_for_a_failed_rank_are_not_blamed(report: Report) -> None:
    result = case(report, "test_assert_on_one")
    assert result.ranks == (2,)
    assert "two is odd today" in result.message
    assert result.seconds < 5


def test_a_failure_of_all_ranks_is_told_once(report: Report) -> None:
    result = case(report, "test_assert_everywhere")
    assert result.ranks == (0, 1, 2, 3)
    assert result.message.count("AssertionError: nobody is below") == 1


def test_a_hang_shows_the_stacks_of_those_that_had_not_finished(report: Report) -> None:
    result = case(report, "test_hang")
    assert result.ranks == (0, 1), "the others wait for these"
    assert set(result.stacks) == {1, 2, 3}
    assert "wait_for_ever" in result.stacks[1]
    assert 5 <= result.seconds < 7


def test_faults_outside_of_the_call_are_errors_of_the_rank_that_had_them(report: Report) -> None:
    assert case(report, "test_setup").ranks == (3,)
    assert case(report, "test_teardown").ranks == (0,)


def test_reasons_are_kept(report: Report) -> None:
    assert case(report, "test_skipped").message == "not today"
    assert case(report, "test_xfailed").message == "known to fail"


def test_a_rank_that_dies_after_its_result_takes_the_result_back(report: Report) -> None:
    result = case(report, "test_dies_after_its_result")
    assert (result.ranks, result.exit_code) == ((2,), 7)


def test_agents_end_with_the_code_of_the_verdict(gang: Gang) -> None:
    assert gang.wait() == {0: 10, 1: 10}


def test_the_termination_message_vouches_for_the_report(gang: Gang, report: Report) -> None:
    summary = gang.summary()
    assert (summary.step, summary.verdict, summary.reason) == ("finished", Verdict.HUNG, Reason.CASES_HUNG)
    assert summary.counts == report.counts
    assert summary.cases_total == report.counts.total
    assert summary.report_sha256
    assert summary.first_failure.startswith("mine: test_it.py::test_exit_0 crashed: rank 3")
    other = gang.summary(1)
    assert (other.node_index, other.step, other.verdict) == (1, "finished", Verdict.HUNG)


def test_what_ranks_print_is_in_the_log_with_their_number(gang: Gang) -> None:
    assert {f"[rank {rank}] the last one ran" for rank in range(4)} <= set(gang.log)
