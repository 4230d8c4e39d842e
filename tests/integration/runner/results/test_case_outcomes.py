"""Outcomes of single cases: their messages, the log, the exit codes and the termination message."""

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from tests.support.gangs.gang import AgentGang, case, make_plan, only_suite, suite_of

SUITE = '''
import os, signal, unittest
import pytest, torch
import torch.distributed as dist

def add():
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return int(tensor)

def test_first(gang, process_group):
    assert add() == gang.world_size

def test_killed(gang, process_group):
    if gang.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    add()

def test_after_it(gang, process_group):
    assert add() == gang.world_size
    assert gang.generation == 2

def test_exit_3(gang):
    if gang.rank == 3:
        os._exit(3)

def test_assert_everywhere(gang):
    assert gang.rank < 0, "no rank is below"

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

class TestUnit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["OF_THE_CLASS"] = "yes"
    @classmethod
    def tearDownClass(cls):
        del os.environ["OF_THE_CLASS"]
    def test_unittest(self):
        assert "DISTTEST_NONCE" not in os.environ
        assert os.environ["WORLD_SIZE"] == "4"
    def test_what_the_class_set_lasts(self):
        assert os.environ["OF_THE_CLASS"] == "yes"

def test_what_the_class_set_is_gone():
    assert "OF_THE_CLASS" not in os.environ

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
        assert add() == 4
        dist.destroy_process_group()

@pytest.mark.parametrize("turn", [1, 2])
def test_group_that_is_left_behind(turn):
    dist.init_process_group("gloo")
    assert add() == 4

def test_last(gang, process_group):
    assert add() == gang.world_size
    print("the last one ran", flush=True)
'''


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> AgentGang:
    folder = tmp_path_factory.mktemp("outcomes")
    gang = AgentGang(make_plan(suite_of(folder / "suite", SUITE)), folder)
    gang.run()
    return gang


@pytest.fixture(scope="module")
def report(gang: AgentGang) -> Report:
    return gang.report()


def test_every_case_has_its_outcome(report: Report, gang: AgentGang) -> None:
    others = {
        "test_killed": Outcome.CRASHED,
        "test_exit_3": Outcome.CRASHED,
        "test_assert_everywhere": Outcome.FAILED,
        "test_setup": Outcome.ERRORED,
        "test_teardown": Outcome.ERRORED,
        "test_skipped": Outcome.SKIPPED,
        "test_skipped_on_one": Outcome.SKIPPED,
        "test_xfailed": Outcome.XFAILED,
        "test_xpassed": Outcome.XPASSED,
        "test_strict_xpassed": Outcome.FAILED,
    }
    found = {one.id.split("::")[-1]: one.outcome for one in only_suite(report).cases}
    assert len(found) == 21
    assert found == dict.fromkeys(found, Outcome.PASSED) | others, gang.text


def test_a_crash_speaks_for_the_run(report: Report) -> None:
    assert (report.verdict, report.reason) == (Verdict.TESTS_FAILED, Reason.CASES_CRASHED)


def test_a_killed_rank_is_named_with_its_signal(report: Report) -> None:
    result = case(report, "test_killed")
    assert (result.ranks, result.nodes, result.exit_code, result.signal) == ((1,), ("local-0",), None, "SIGKILL")


def test_a_rank_that_left_is_named_with_its_exit_code(report: Report) -> None:
    result = case(report, "test_exit_3")
    assert (result.ranks, result.nodes, result.exit_code, result.signal) == ((3,), ("local-1",), 3, "")


def test_a_failure_of_all_ranks_is_reported_once(report: Report) -> None:
    result = case(report, "test_assert_everywhere")
    assert result.ranks == (0, 1, 2, 3)
    assert result.message.count("AssertionError: no rank is below") == 1


def test_faults_outside_of_the_call_are_errors_of_the_rank_that_had_them(report: Report) -> None:
    assert case(report, "test_setup").ranks == (3,)
    assert case(report, "test_teardown").ranks == (0,)


def test_the_ending_of_each_rank_is_reported_where_they_differ_or_failed(report: Report) -> None:
    def by_rank(name: str) -> list[tuple[tuple[int, ...], str]]:
        return [(group.ranks, group.ending.value) for group in case(report, name).by_rank]

    assert by_rank("test_first") == by_rank("test_skipped") == []
    killed = case(report, "test_killed").by_rank
    assert (killed[0].ranks, killed[0].ending, killed[0].message) == ((1,), "crashed", "was killed by SIGKILL")
    assert {rank for group in killed for rank in group.ranks} == {0, 1, 2, 3}
    assert by_rank("test_assert_everywhere") == [((0, 1, 2, 3), "failed")]
    assert by_rank("test_setup") == [((3,), "errored"), ((0, 1, 2), "passed")]
    assert "fixture broke" in case(report, "test_setup").by_rank[0].message
    assert by_rank("test_skipped_on_one") == [((0,), "skipped"), ((1, 2, 3), "passed")]


def test_the_start_of_each_case_is_reported(report: Report) -> None:
    starts = [one.at or 0.0 for one in only_suite(report).cases]
    assert starts == sorted(starts)
    assert report.first_case is not None
    assert abs(report.started + starts[0] - report.first_case) < 0.5
    assert starts[-1] < report.finished - report.started


def test_the_log_contains_progress_that_programs_can_read(gang: AgentGang, report: Report) -> None:
    progress = gang.progress
    steps = list(dict.fromkeys(one.step for one in progress))
    assert steps == ["joining", "collecting", "running", "finished"]
    last = progress[-1]
    assert (last.nodes_joined, last.suites_done, last.current_case) == (2, 1, "")
    assert (last.cases_done, last.cases_total, last.counts) == (21, 21, report.counts)
    assert [one.case for one in last.failures] == [one.id for _, one in report.failures][-5:]
    assert any(one.current_case and one.cases_total == 21 for one in progress)
    assert len(progress) < 8 + (report.finished - report.started) / 5, "more often than every 5 s"


def test_reasons_are_kept(report: Report) -> None:
    assert case(report, "test_skipped").message == "not today"
    assert case(report, "test_xfailed").message == "known to fail"


def test_agents_end_with_the_code_of_the_verdict(gang: AgentGang) -> None:
    assert gang.wait() == {0: 10, 1: 10}


def test_the_termination_message_vouches_for_the_report(gang: AgentGang, report: Report) -> None:
    summary = gang.summary()
    assert (summary.step, summary.verdict, summary.reason) == ("finished", report.verdict, report.reason)
    assert summary.counts == report.counts
    assert summary.cases_total == report.counts.total
    assert summary.report_sha256
    assert summary.first_failure.startswith("mine: test_it.py::test_killed crashed: rank 1")
    other = gang.summary(1)
    assert (other.node_index, other.step, other.verdict) == (1, "finished", Verdict.TESTS_FAILED)


def test_what_ranks_print_is_in_the_log_with_their_number(gang: AgentGang) -> None:
    assert {f"[rank {rank}] the last one ran" for rank in range(4)} <= set(gang.log)
