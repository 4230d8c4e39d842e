"""Faults of agents, pods and the network. No pod comes back within an attempt: the operator makes the next one."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from disttest_contract.gang import environment
from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from tests.integration.runner.faults.fault import After, Fault, FaultResult, Trial, word
from tests.integration.runner.faults.proxy import StallingProxy
from tests.support import patience
from tests.support.gangs.gang import AgentGang, make_plan, suite_of, wait_for

SILENCE_SECONDS = 3
RENDEZVOUS_SECONDS = 20
SOON = 4.0  # for a report and the ends of processes, on a busy machine
KNOWN = ("passed", "failed", "notRun", "notRun")

SUITE = """
import time
def test_good(): pass
def test_bad(gang): assert gang.rank != 1
def test_long():
    print("asleep", flush=True)
    time.sleep(1000)
def test_never(): pass
"""


def _plan(folder: Path) -> RunPlan:
    return make_plan(suite_of(folder / "suite", SUITE), ranks=1, case_seconds=100, run_seconds=300)


def _asleep(gang: AgentGang) -> None:
    """Both ranks are in the third of four cases."""
    wait_for(lambda: sum("asleep" in line for line in gang.log) == 2, "two sleepers", 60, lambda: gang.text)


def _of_report(report: Report, seconds: float) -> FaultResult:
    outcomes = tuple(one.outcome.value for suite in report.suites for one in suite.cases)
    after = After.ENDS if outcomes == KNOWN else f"the cases are {outcomes}"
    return FaultResult(outcome=word(report), message=report.message, seconds=seconds, after=after)


def _ends(fault: Fault, strike: Callable[[AgentGang], None], survivor: int) -> Callable[[Path], dict[str, FaultResult]]:
    """Strike when all are asleep, and see what the surviving agent says."""

    def show(folder: Path) -> dict[str, FaultResult]:
        gang = AgentGang(
            _plan(folder), folder, environ={environment.SILENCE_SECONDS: str(patience.stretched(SILENCE_SECONDS))}
        )
        try:
            return {fault.name: _struck(gang, strike, survivor)}
        finally:
            gang.end()

    return show


def _struck(gang: AgentGang, strike: Callable[[AgentGang], None], survivor: int) -> FaultResult:
    _asleep(gang)
    started = time.monotonic()
    strike(gang)
    gang.agents[survivor].wait(patience.stretched(60))
    seconds = time.monotonic() - started
    if survivor == 0:
        return _of_report(gang.report(), seconds)
    summary, leader = gang.summary(1), gang.summary(0)
    kept = leader.current == "mine: test_it.py::test_long" and leader.counts[Outcome.FAILED] == 1
    return FaultResult(
        outcome=f"{summary.verdict} {summary.reason}",
        message=summary.message,
        seconds=seconds,
        after=After.ENDS if kept else f"the leader's last words are {leader}",
    )


LEADER_KILLED = Fault(
    name="the leader's agent is killed", outcome="InfraFailed GangLost",
    words=("the leader at 127.0.0.1 closed the connection before it reported a verdict",),
    limit_seconds=SOON, after=After.ENDS,
)  # fmt: skip  # a row reads as a sentence
AGENT_KILLED = Fault(
    name="another agent is killed", outcome="InfraFailed GangLost",
    words=("node index 1 (pod tried-1 on local-1): the connection to the agent broke",),
    limit_seconds=SOON, after=After.ENDS,
)  # fmt: skip
LEADER_STOPPED = Fault(
    name="the leader's agent gets SIGSTOP", outcome="InfraFailed GangLost",
    words=("the leader at 127.0.0.1", "sent nothing for"), limit_seconds=2 * SILENCE_SECONDS + SOON,
    after=After.ENDS,
)  # fmt: skip
AGENT_STOPPED = Fault(
    name="another agent gets SIGSTOP", outcome="InfraFailed GangLost",
    words=("node index 1 (pod tried-1 on local-1)", "sent nothing for"), limit_seconds=2 * SILENCE_SECONDS + SOON,
    after=After.ENDS,
)  # fmt: skip
STALL = Fault(
    name="the network to an agent stalls", outcome="InfraFailed GangLost",
    words=("node index 1 (pod tried-1 on local-1)", "or the network fails"),
    limit_seconds=2 * SILENCE_SECONDS + SOON, after=After.ENDS,
)  # fmt: skip
NEVER = Fault(
    name="a pod does not start", outcome="InfraFailed RendezvousTimeout",
    words=("node index 1 of 2 did not join within",), limit_seconds=2 + SOON, after=After.ENDS,
)  # fmt: skip
LATE = Fault(
    name="a pod starts late", outcome="Passed AllCasesPassed", limit_seconds=RENDEZVOUS_SECONDS, after=After.GOES_ON
)
TWICE = Fault(
    name="two pods have the same index", outcome="InfraFailed GangFailedToStart",
    words=("node index 1 has joined already, as pod tried-1",), limit_seconds=SOON, after=After.GOES_ON,
)  # fmt: skip


def _show_stall(folder: Path) -> dict[str, FaultResult]:
    """Agent 1 reaches the leader through a proxy, which keeps its connections and no longer forwards."""
    with StallingProxy() as proxy:
        gang = AgentGang(
            _plan(folder),
            folder,
            environ={environment.SILENCE_SECONDS: str(patience.stretched(SILENCE_SECONDS))},
            own={1: {environment.LEADER: f"127.0.0.1:{proxy.port}"}},
            indexes=(),
        )
        proxy.target = gang.port
        try:
            for index in range(2):
                gang.start(index)
            found = _struck(gang, lambda _: proxy.stall(), 0)
            gang.agents[1].wait(patience.stretched(SILENCE_SECONDS * 2 + 10))
            said = gang.summary(1).message
            if "sent nothing" not in said:
                found = FaultResult(outcome=f"agent 1 said {said!r}", seconds=found.seconds, after=found.after)
            return {STALL.name: found}
        finally:
            gang.end()


def _show_never(folder: Path) -> dict[str, FaultResult]:
    plan = make_plan(suite_of(folder / "suite", SUITE), ranks=1, rendezvous_seconds=2)
    started = time.monotonic()
    gang = AgentGang(plan, folder, indexes=[0])
    try:
        gang.wait_for_line("default/tried attempt 1")
        started = time.monotonic()
        report = gang.run()
    finally:
        gang.end()
    after = After.ENDS if report.suites[0].verdict is report.verdict else f"the suite is {report.suites[0].verdict}"
    found = FaultResult(outcome=word(report), message=report.message, seconds=time.monotonic() - started, after=after)
    return {NEVER.name: found}


def _show_late(folder: Path) -> dict[str, FaultResult]:
    """The leader waits for agent 1; later a second agent 1 starts and is rejected, and the first one continues."""
    release = folder / "release"
    source = f"""
import pathlib, time
def test_waits():
    while not pathlib.Path({str(release)!r}).exists():
        time.sleep(0.02)
"""
    plan = make_plan(
        suite_of(folder / "suite", source), ranks=1, rendezvous_seconds=RENDEZVOUS_SECONDS, case_seconds=60
    )
    gang = AgentGang(plan, folder, indexes=[0])
    try:
        gang.wait_for_line("default/tried attempt 1")
        time.sleep(2)  # late, yet within the time to join
        gang.start(1)
        gang.wait_for_line("joined after")
        started = time.monotonic()
        own = {environment.TERMINATION_LOG: str(folder / "second"), environment.POD_UID: "second"}
        code = gang.start(1, key=2, **own).wait(patience.stretched(30))
        seconds = time.monotonic() - started
        second = gang.read_summary(folder / "second")
        release.touch()
        report = gang.run()
    finally:
        gang.end()
    whole = After.GOES_ON if word(report) == LATE.outcome and code == 20 else f"the run came to {word(report)}"
    waited = (report.joined or 0) - report.started
    return {
        LATE.name: FaultResult(outcome=word(report), message=report.message, seconds=waited, after=whole),
        TWICE.name: FaultResult(
            outcome=f"{second.verdict} {second.reason}", message=second.message, seconds=seconds, after=whole
        ),
    }


def _trial(fault: Fault, strike: Callable[[AgentGang], None], *, survivor: int) -> Trial:
    return Trial(title=fault.name, faults=(fault,), show=_ends(fault, strike, survivor))


TRIALS = (
    _trial(LEADER_KILLED, lambda gang: gang.agents[0].kill(), survivor=1),
    _trial(AGENT_KILLED, lambda gang: gang.agents[1].kill(), survivor=0),
    _trial(LEADER_STOPPED, lambda gang: gang.agents[0].send_signal(signal.SIGSTOP), survivor=1),
    _trial(AGENT_STOPPED, lambda gang: gang.agents[1].send_signal(signal.SIGSTOP), survivor=0),
    Trial(title=STALL.name, faults=(STALL,), show=_show_stall),
    Trial(title=NEVER.name, faults=(NEVER,), show=_show_never),
    Trial(title=LATE.name, faults=(LATE, TWICE), show=_show_late),
)
