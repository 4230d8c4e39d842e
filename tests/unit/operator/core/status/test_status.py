import math
from typing import Any

import pytest
import yaml

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult
from disttest_operator.core.api import conditions
from disttest_operator.core.api.conditions import ConditionState, ConditionType
from disttest_operator.core.observed.evidence import Evidence, Stored
from disttest_operator.core.observed.objects import NodeView, PodView
from disttest_operator.core.status import events, status
from disttest_operator.core.verdict.rule import Ending
from tests.support.builders.runs import (
    a_flaky_case,
    a_job,
    a_pod,
    a_report,
    a_report_of,
    a_spec,
    a_suite,
    a_test,
    a_waiting_pod,
    an_ended_pod,
    an_unscheduled_pod,
    evidence,
    found,
)

PASSED = Ending(verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED, message="2 cases passed")
GOLDEN = """
attempt: 1
attempts:
- {number: 1, job: nightly-a1, nodes: [node0, node1], verdict: Passed, reason: AllCasesPassed,
  startTime: '2026-11-21T02:00:05Z', completionTime: '2026-11-21T02:00:20Z'}
cases: {total: 2, passed: 2, failed: 0, errored: 0, crashed: 0, hung: 0, skipped: 0, xfailed: 0, xpassed: 0,
  notRun: 0, flaky: 0, quarantined: 0}
completionTime: '2026-11-21T02:00:20Z'
conditions:
- {type: GangReady, status: 'True', reason: GangRunning, message: 2 of 2 pods are running,
  lastTransitionTime: '2026-11-21T02:00:20Z', observedGeneration: 1}
- {type: ResultsCollected, status: 'True', reason: ReportRead, message: the report was read,
  lastTransitionTime: '2026-11-21T02:00:20Z', observedGeneration: 1}
- {type: Complete, status: 'True', reason: AllCasesPassed, message: 2 cases passed,
  lastTransitionTime: '2026-11-21T02:00:20Z', observedGeneration: 1}
- {type: Finished, status: 'True', reason: Passed, message: 2 cases passed,
  lastTransitionTime: '2026-11-21T02:00:20Z', observedGeneration: 1}
duration: 15s
durationSeconds: 15.0
failures: []
gpus: 0
message: 2 cases passed
observedGeneration: 1
phase: Finished
reason: AllCasesPassed
report: {configMap: nightly-report, sha256: abc}
series: adhoc
startTime: '2026-11-21T02:00:05Z'
stepSeconds: {queued: 1.0, scheduled: 2.0, pulled: 2.0, joined: 2.0, ran: 12.0, collected: 1.0}
suites:
- {name: collectives, verdict: Passed, reason: AllCasesPassed, message: '', seconds: 1.5,
  cases: {total: 2, passed: 2, failed: 0, errored: 0, crashed: 0, hung: 0, skipped: 0, xfailed: 0, xpassed: 0,
    notRun: 0, flaky: 0, quarantined: 0}}
verdict: Passed
"""


def an_end(report: Any = None, **changes: Any) -> Evidence:
    seen: dict[str, Any] = {
        "report": found(report or a_report()),
        "stored": Stored(config_map="nightly-report", sha256="abc"),
    }
    return evidence(an_ended_pod(0, 0, seconds=19), an_ended_pod(1, 0, seconds=19), **seen | changes)


def test_the_terminal_status_is_this() -> None:
    assert status.finished(an_end(), PASSED) == yaml.safe_load(GOLDEN)


PHASES = {
    "Queued": evidence(an_unscheduled_pod(0), a_pod(1)),
    "Starting": evidence(a_waiting_pod(0, "ContainerCreating"), a_pod(1)),
    "Running": evidence(a_pod(0), a_pod(1)),
    "Collecting": evidence(an_ended_pod(0, 0), a_pod(1)),
}


@pytest.mark.parametrize(("phase", "look"), PHASES.items(), ids=PHASES.keys())
def test_phases_follow_the_pods(phase: str, look: Evidence) -> None:
    assert status.unfinished(look)["phase"] == phase


def test_a_phase_never_goes_back() -> None:
    test = a_test({"phase": "Running", "attempt": 1})
    assert status.unfinished(evidence(an_unscheduled_pod(0), test=test))["phase"] == "Running"


WAITS = {
    "Suspended": evidence(job=a_job(is_suspended=True)),
    "InsufficientGPUs": evidence(
        an_unscheduled_pod(0),
        test=a_test(spec=a_spec(gpus_per_node=8)),
        nodes=(NodeView(name="n", labels={}, allocatable={}),),
    ),
    "Unschedulable": evidence(an_unscheduled_pod(0), a_pod(1)),
    "Starting": evidence(a_waiting_pod(0, "ContainerCreating"), a_pod(1)),
}


@pytest.mark.parametrize("pods", [(an_unscheduled_pod(0),), ()], ids=["pods wait", "no pods yet"])
def test_a_gang_that_is_too_large_for_the_nodes_has_that_message_before_its_pods_exist(
    pods: tuple[PodView, ...],
) -> None:
    nodes = (NodeView(name="n", labels={}, allocatable={}),)
    look = evidence(*pods, test=a_test(spec=a_spec(gpus_per_node=8)), nodes=nodes)
    gang = conditions.find(status.unfinished(look), ConditionType.GANG_READY)
    assert gang is not None
    assert gang["message"].startswith("The run needs 2 x 8 nvidia.com/gpu, but 0 of 1 nodes have 8 or more")
    assert status.unfinished(look)["message"] == gang["message"]


@pytest.mark.parametrize(("reason", "look"), WAITS.items(), ids=WAITS.keys())
def test_the_condition_gang_ready_has_the_reason_of_the_wait(reason: str, look: Evidence) -> None:
    gang = conditions.find(status.unfinished(look), ConditionType.GANG_READY)
    assert gang is not None
    assert (gang["status"], gang["reason"]) == ("False", reason)
    assert gang["message"]


def test_what_a_report_claims_cannot_break_the_status() -> None:
    """The API server refuses infinities, negative ranks and endless texts; a refused status would never end a run."""
    case = CaseResult(
        id="x" * 5000,
        outcome=Outcome.FAILED,
        seconds=math.inf,
        message="y" * 9000,
        ranks=(-1, 0, 3, 4, 10**30),
        nodes=("n" * 999,) * 40,
    )
    suite = a_suite("collectives", {"a": Outcome.PASSED})
    suite = type(suite)(**{name: getattr(suite, name) for name in suite.__slots__} | {"cases": (case,) * 50})
    report = a_report(suites=(suite, suite, a_suite("of-another-run", {"a": Outcome.PASSED})))
    last = status.finished(an_end(report), PASSED)
    assert len(last["suites"]) == 1, "only suites of the run, each once"
    assert len(last["failures"]) == 20
    failure = last["failures"][0]
    assert failure["seconds"] == 0.0
    assert failure["ranks"] == [0, 3]
    assert len(failure["case"]) <= 600
    assert "#" in failure["case"], "cut ids stay distinct"
    assert len(failure["message"]) <= 512
    assert len(failure["nodes"]) == 16
    assert len(failure["nodes"][0]) <= 253


def test_failures_come_first_and_flaky_cases_after_them_with_what_was_wrong_at_first() -> None:
    good = CaseResult(id="t.py::test_good", outcome=Outcome.PASSED, seconds=0.5)
    bad = CaseResult(id="t.py::test_bad", outcome=Outcome.FAILED, seconds=0.5, message="why", ranks=(0,))
    report = a_report_of(a_flaky_case("test_flaky", Outcome.CRASHED, Outcome.FAILED), good, bad)
    last = status.finished(an_end(report), PASSED)
    assert (last["cases"]["total"], last["cases"]["passed"], last["cases"]["flaky"]) == (3, 2, 1)
    assert last["suites"][0]["cases"] == last["cases"]
    failed, flaky = last["failures"]
    assert (failed["case"], failed["outcome"], "flaky" in failed) == ("t.py::test_bad", "failed", False)
    assert flaky == {
        "case": "t.py::test_flaky",
        "suite": "collectives",
        "outcome": "passed",
        "flaky": True,
        "ranks": [3],
        "nodes": ["node1"],
        "message": "crashed at first: try 0",
        "seconds": 0.5,
    }


def test_the_case_that_the_end_of_the_run_interrupted_is_named_first() -> None:
    message = "still running after 20 s when the run timed out; rank 1 is at wait (t.py:7)"
    cut = CaseResult(id="t.py::test_stuck", outcome=Outcome.NOT_RUN, seconds=20, at=3.0, message=message)
    never = CaseResult(id="t.py::test_never", outcome=Outcome.NOT_RUN, seconds=0)
    bad = tuple(CaseResult(id=f"t.py::{n}", outcome=Outcome.FAILED, seconds=1) for n in range(25))
    last = status.finished(an_end(a_report_of(*bad, cut, never)), PASSED)
    assert len(last["failures"]) == 20
    first = last["failures"][0]
    assert (first["case"], first["outcome"], first["message"]) == ("t.py::test_stuck", "notRun", message)
    assert last["cases"]["notRun"] == 2


def test_many_failures_leave_no_room_for_flaky_cases() -> None:
    bad = tuple(CaseResult(id=f"t.py::{n}", outcome=Outcome.HUNG, seconds=1) for n in range(25))
    failures = status.finished(an_end(a_report_of(a_flaky_case(), *bad)), PASSED)["failures"]
    assert [failure["outcome"] for failure in failures] == ["hung"] * 20


def test_a_case_that_failed_every_time_is_not_flaky() -> None:
    report = a_report_of(a_flaky_case("test_red", Outcome.FAILED, outcome=Outcome.CRASHED))
    last = status.finished(an_end(report), PASSED)
    assert last["cases"]["flaky"] == 0
    assert [("flaky" in failure, failure["outcome"]) for failure in last["failures"]] == [(False, "crashed")]


def test_a_conditions_time_changes_with_its_status_only() -> None:
    look = evidence(a_pod(0), a_pod(1))
    first = ConditionState(type=ConditionType.GANG_READY, is_true=False, reason="Starting", message="a")
    second = ConditionState(type=ConditionType.GANG_READY, is_true=False, reason="Unschedulable", message="b")
    third = ConditionState(type=ConditionType.GANG_READY, is_true=True, reason="GangRunning", message="c")
    times = []
    merged: list[Any] = [{"type": "Foreign", "status": "True"}]
    for seconds, state in enumerate((first, second, third)):
        now = look.now.replace(second=seconds)
        merged = conditions.merge(merged, (state,), generation=1, now=now)
        times.append(merged[1]["lastTransitionTime"][-3:-1])
    assert times == ["00", "00", "02"]
    assert merged[0] == {"type": "Foreign", "status": "True"}, "conditions of others stay"


def test_the_event_of_a_passed_run_counts_flaky_cases() -> None:
    last = status.finished(an_end(a_report_of(a_flaky_case(), a_flaky_case("test_other"))), PASSED)
    notes = [(one.note, one.is_warning) for one in events.between({"attempt": 1}, last)]
    assert notes[-1] == ("AllCasesPassed, 2 flaky: 2 cases passed", False)


def test_each_transition_has_one_event() -> None:
    queued = status.unfinished(evidence(an_unscheduled_pod(0), a_pod(1)))
    running = status.unfinished(evidence(a_pod(0), a_pod(1), test=a_test(queued)))
    last = status.finished(an_end(test=a_test(running)), PASSED)
    steps = [events.between(*pair) for pair in (({}, queued), (queued, running), (running, last), (last, last))]
    reasons = [[transition.reason for transition in step] for step in steps]
    assert reasons == [["Created", "Unschedulable"], ["GangReady"], ["Passed"], []]
