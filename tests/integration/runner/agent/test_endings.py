"""Runs that end before their last case: by a signal, by a lost agent, by the clock. Nothing is ever left behind."""

import signal
import time
from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_runner.cases.rank_orders import MIN_COLLECT_SECONDS
from tests.support import patience
from tests.support.gangs.gang import AgentGang, case, make_plan, suite_of, wait_for

SUITE = """
import subprocess, time
def test_good(process_group): pass
def test_bad(gang): assert gang.rank != 1
def test_long(gang, process_group):
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("asleep", flush=True)
    time.sleep(1000)
def test_never(): pass
"""

TOLD_TO_END_WHILE_IT_STARTS = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "disttest_runner.agent.agent":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def gang(tmp_path: Path, request: pytest.FixtureRequest) -> AgentGang:
    """A gang whose ranks are all asleep in the third of four cases, each with a child process."""
    seconds = getattr(request, "param", 120)
    plan = make_plan(suite_of(tmp_path / "suite", SUITE), case_seconds=100, run_seconds=seconds)
    gang = AgentGang(plan, tmp_path)
    wait_for(lambda: sum("asleep" in line for line in gang.log) == 4, "4 sleepers", 90, lambda: gang.text)
    return gang


def check_partial_report(gang: AgentGang, verdict: Verdict, reason: Reason) -> None:
    report = gang.run()
    assert (report.verdict, report.reason) == (verdict, reason), report.message
    (suite,) = report.suites
    assert (suite.verdict, suite.reason) == (verdict, reason)
    assert [one.outcome for one in suite.cases] == [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.NOT_RUN,
        Outcome.NOT_RUN,
    ], gang.text
    assert case(report, "test_bad").ranks == (1,)
    asleep = case(report, "test_long")
    assert asleep.is_interrupted
    assert asleep.message.startswith("still running after ")
    assert "ranks 0, 1, 2, 3 are at test_long (test_it.py:" in asleep.message
    assert sorted(asleep.stacks) == [0, 1, 2, 3]
    assert not case(report, "test_never").is_interrupted
    assert gang.summary().verdict is verdict


def test_sigterm_ends_the_leader_with_a_report_of_what_is_known(gang: AgentGang) -> None:
    started = time.monotonic()
    gang.agents[0].send_signal(signal.SIGTERM)
    check_partial_report(gang, Verdict.INFRA_FAILED, Reason.TERMINATED)
    assert gang.wait() == {0: 20, 1: 20}
    assert time.monotonic() - started < patience.stretched(5)
    assert gang.summary(1).reason is Reason.TERMINATED


def test_an_agent_that_is_terminated_while_it_starts_ends_at_once_with_that_reason(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(TOLD_TO_END_WHILE_IT_STARTS)
    plan = make_plan(suite_of(tmp_path / "suite", SUITE), nodes=1)
    gang = AgentGang(plan, tmp_path, environ={"PYTHONPATH": str(tmp_path)})
    assert gang.wait() == {0: 20}, gang.text
    assert gang.summary().reason is Reason.TERMINATED


def test_sigterm_of_another_agent_is_a_lost_gang_that_names_the_node(gang: AgentGang) -> None:
    gang.agents[1].send_signal(signal.SIGTERM)
    check_partial_report(gang, Verdict.INFRA_FAILED, Reason.GANG_LOST)
    assert gang.wait() == {0: 20, 1: 20}
    assert "node index 1 (pod tried-1 on local-1): the agent exited" in gang.report().message
    assert gang.summary(1).reason is Reason.TERMINATED


@pytest.mark.soak  # the table of faults has it too
def test_a_killed_agent_is_a_lost_gang_that_names_the_node(gang: AgentGang) -> None:
    gang.agents[1].kill()
    gang.agents[0].wait(patience.stretched(10))
    report = gang.report()
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.GANG_LOST)
    assert "node index 1 (pod tried-1 on local-1): the connection to the agent broke" in report.message
    assert [one.outcome for one in report.suites[0].cases][:2] == [Outcome.PASSED, Outcome.FAILED]
    # The ranks die with their agent; processes in other sessions end with the container.
    wait_for(lambda: all("sleep 1000" in line for line in gang.living()), "ranks left", 3, lambda: str(gang.living()))


def test_agents_that_lose_their_leader_report_it(gang: AgentGang) -> None:
    gang.agents[0].kill()
    assert gang.agents[1].wait(patience.stretched(10)) == 20
    summary = gang.summary(1)
    assert (summary.verdict, summary.reason) == (Verdict.INFRA_FAILED, Reason.GANG_LOST)
    assert "the leader at 127.0.0.1 closed the connection" in summary.message
    # the leader's last message shows where it was
    last = gang.summary(0)
    assert (last.step, last.verdict) == ("running", None)
    assert last.current == "mine: test_it.py::test_long"
    assert last.first_failure.startswith("mine: test_it.py::test_bad failed")
    assert last.counts.total == 2
    seen = gang.progress[-1]
    assert (seen.step, seen.suite, seen.cases_total) == ("running", "mine", 4)


@pytest.mark.soak
@pytest.mark.parametrize("gang", [25], indirect=True, ids=["25"])
def test_the_deadline_of_the_run_leaves_the_rest_not_run(gang: AgentGang) -> None:
    check_partial_report(gang, Verdict.TIMED_OUT, Reason.RUN_TIMEOUT)
    assert gang.wait() == {0: 10, 1: 10}
    assert f"within {gang.plan.run_seconds} s" in gang.report().message


def test_a_killed_zygote_is_replaced_and_the_cases_that_are_left_run(tmp_path: Path) -> None:
    source = """
import os, signal
def test_kills_its_zygote(gang, process_group):
    if gang.rank == 2:
        os.kill(os.getppid(), signal.SIGKILL)
    while True:
        signal.pause()
def test_after(gang, process_group):
    assert gang.generation == 2
"""
    gang = AgentGang(make_plan(suite_of(tmp_path / "suite", source)), tmp_path)
    report = gang.run()
    assert (report.verdict, report.reason) == (Verdict.TESTS_FAILED, Reason.CASES_CRASHED), gang.text
    crash, after = report.suites[0].cases
    assert (crash.outcome, crash.nodes, crash.signal) == (Outcome.CRASHED, ("local-1",), "SIGKILL")
    assert after.outcome is Outcome.PASSED
    assert "the zygote was killed, and its ranks with it" in gang.text


def test_a_zygote_that_cannot_import_torch_ends_the_run_with_what_it_said(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "torch.py").write_text("raise ImportError('libcudart is missing')\n")
    plan = make_plan(suite_of(tmp_path / "suite", SUITE))
    gang = AgentGang(plan, tmp_path, own={1: {"PYTHONPATH": str(hooks)}})
    report = gang.run()
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.GANG_FAILED_TO_START)
    assert "node index 1 (pod tried-1 on local-1)" in report.message
    assert "[zygote] ImportError: libcudart is missing" in gang.text
    assert report.finished - report.started < MIN_COLLECT_SECONDS / 2  # at once, not at a deadline
