"""What an attempt leaves to the next one: the record, the nodes to avoid, the time that is left, when to begin."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_operator.core import actions
from disttest_operator.core.api.model import DistTest, Placement, Retries
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Evidence, Policy, Search
from disttest_operator.core.observed.objects import NodeView
from disttest_operator.core.plan import next_step
from disttest_operator.core.status import attempt_record, status
from disttest_operator.core.verdict import classify
from disttest_operator.core.verdict.rule import Ending, Retry
from tests.support.builders.runs import (
    a_bad_report,
    a_disrupted_pod,
    a_job,
    a_pod,
    a_report,
    a_spec,
    a_summary,
    a_test,
    an_ended_pod,
    an_unscheduled_pod,
    at,
    evidence,
    found,
)

LOST = Ending(
    verdict=Verdict.INFRA_FAILED,
    reason=Reason.NODE_LOST,
    message="node1 is gone",
    retry=Retry.CHARGED,
    blamed=("node1",),
)
PASSED = Ending(verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED, message="2 cases passed")
RUNNING_CASE = "t.py::test_deep"
NODES = tuple(NodeView(name=f"node{index}", labels={}, allocatable={}) for index in range(4))


def a_record(number: int = 1, **changes: Any) -> dict[str, Any]:
    usual = {
        "number": number,
        "job": f"nightly-a{number}",
        "nodes": ["node0", "node1"],
        "verdict": "InfraFailed",
        "reason": "NodeLost",
        "message": "node1 is gone",
        "charged": True,
        "startTime": "2026-11-21T02:00:05Z",
        "completionTime": "2026-11-21T02:01:00Z",
    }
    return usual | changes


def after(*records: dict[str, Any], **spec: Any) -> DistTest:
    """A run whose attempts so far ended so."""
    blamed = [{"name": "node1", "reason": "NodeLost", "evidence": "gone", "confirmed": False}]
    said = {"attempt": len(records), "attempts": list(records), "suspectNodes": blamed}
    return a_test(status=said, spec=a_spec(**spec))


def second_gang(test: DistTest, *indexed_nodes: str, **seen: Any) -> Evidence:
    pods = [an_ended_pod(i, 0, attempt=2, node=node, seconds=80) for i, node in enumerate(indexed_nodes)]
    return evidence(*pods, test=test, job=a_job(name="nightly-a2"), seconds=90, **seen)


def test_an_infrastructure_failure_ends_the_attempt_and_not_the_run() -> None:
    said = found(a_bad_report(Verdict.INFRA_FAILED, Reason.GANG_LOST))
    lost = evidence(an_ended_pod(0, 20), a_disrupted_pod(1, "DeletionByTaintManager"), report=said, seconds=24)
    assert isinstance(next_step(lost), actions.SearchHardware)
    step = next_step(replace(lost, seen=replace(lost.seen, search=Search())))
    assert isinstance(step, actions.WriteReport)
    assert step.name == "nightly-report-a1"


def test_the_record_of_an_attempt_names_the_first_failure_and_the_case() -> None:
    dead = an_ended_pod(1, 137, seconds=18, summary=a_summary(node_index=1), signal=9)
    leader = an_ended_pod(0, 20, seconds=20, summary=a_summary(current=RUNNING_CASE))
    partial = found(a_report({"test_a": Outcome.PASSED, "test_b": Outcome.NOT_RUN}))
    written = status.between_attempts(evidence(leader, dead, report=partial), LOST)
    (kept,) = written["attempts"]
    assert kept["number"] == 1
    assert kept["nodes"] == ["node0", "node1"]
    assert kept["charged"] is True
    assert kept["cases"]["passed"] == 1
    assert kept["firstFailure"] == {
        "time": "2026-11-21T02:00:18Z",
        "pod": "nightly-a1-1-abcde",
        "node": "node1",
        "exitCode": 137,
        "signal": 9,
        "case": RUNNING_CASE,
    }
    assert written["suspectNodes"] == [
        {"name": "node1", "reason": "NodeLost", "evidence": "node1 is gone", "confirmed": False}
    ]
    assert written["retries"] == [{"reason": "NodeLost", "count": 1}]
    assert (written["phase"], written["startTime"]) == ("Queued", None)
    assert "verdict" not in written


def test_the_next_attempt_is_counted_from_the_records() -> None:
    assert a_test().attempt == 1
    test = after(a_record())
    assert (test.attempt, test.has_begun) == (2, False)
    assert a_test(status={"verdict": "Passed", "attempt": 2, "attempts": [a_record(), a_record(2)]}).attempt == 2


@pytest.mark.parametrize(
    ("records", "allowed", "left"),
    [((), 1, 1), ((a_record(),), 1, 0), ((a_record(), a_record(2, charged=False)), 2, 1), ((a_record(),), 0, 0)],
)
def test_only_charged_attempts_use_up_retries(records: tuple[Any, ...], allowed: int, left: int) -> None:
    assert attempts.retries_left(after(*records, retries=Retries(infrastructure=allowed))) == left


def test_an_attempt_beyond_the_retries_ends_the_run_with_its_own_verdict() -> None:
    test = after(a_record())
    ending = attempt_record.reconsider(second_gang(test, "node2", "node3"), LOST)
    assert (ending.verdict, ending.reason, ending.retry) == (Verdict.INFRA_FAILED, Reason.NODE_LOST, Retry.NEVER)


def test_an_eviction_by_a_queue_uses_no_retry() -> None:
    test = a_test(spec=a_spec(retries=Retries(infrastructure=0)))
    away = evidence(a_pod(0, is_deleting=True), job=a_job(is_suspended=True), test=test)
    ending = classify(away)
    assert ending is not None
    assert attempt_record.reconsider(away, ending).retry is Retry.FREE
    assert attempt_record.make(away, ending)["charged"] is False


def test_pods_that_are_seen_before_their_job_is_seen_to_be_admitted_are_not_taken_away() -> None:
    """Jobs and pods are watched apart: a pod's event may come first."""
    fresh = a_pod(0, phase="Pending", node="", started=None, conditions={})
    assert classify(evidence(fresh, job=a_job(is_suspended=True, started=None))) is None


def test_a_pass_elsewhere_confirms_a_suspect_and_a_pass_there_clears_it() -> None:
    test = after(a_record())
    elsewhere = attempt_record.suspect_nodes(second_gang(test, "node0", "node2"), PASSED)
    assert [(entry["name"], entry["confirmed"]) for entry in elsewhere] == [("node1", True)]
    assert attempt_record.suspect_nodes(second_gang(test, "node0", "node1"), PASSED) == []


def in_case(reason: str, *nodes: str) -> dict[str, Any]:
    return a_record(reason=reason, nodes=list(nodes), firstFailure={"case": RUNNING_CASE})


@pytest.mark.parametrize(
    ("before", "nodes", "is_tests_fault"),
    [
        (in_case("NodeLost", "node0", "node1"), ("node2", "node3"), True),
        (in_case("PodKilled", "node0", "node1"), ("node2", "node3"), True),
        (in_case("NodeLost", "node0", "node1"), ("node1", "node2"), False),
        (in_case("Disrupted", "node0", "node1"), ("node2", "node3"), False),
        (a_record(nodes=["node0", "node1"]), ("node2", "node3"), False),
    ],
    ids=["disjoint", "another reason", "a node in common", "preempted before", "no case before"],
)
def test_the_same_case_on_disjoint_nodes_is_the_tests_fault(
    before: dict[str, Any],
    nodes: tuple[str, ...],
    is_tests_fault: bool,  # noqa: FBT001  # a column of the table
) -> None:
    test = after(before, retries=Retries(infrastructure=3))
    pods = [
        an_ended_pod(i, 137, attempt=2, node=node, seconds=80, summary=a_summary(attempt=2, current=RUNNING_CASE))
        for i, node in enumerate(nodes)
    ]
    again = evidence(*pods, test=test, job=a_job(name="nightly-a2"), seconds=90)
    ending = attempt_record.reconsider(again, LOST)
    assert (ending.verdict is Verdict.TESTS_FAILED) is is_tests_fault
    assert (ending.retry is Retry.NEVER) is is_tests_fault
    if is_tests_fault:
        assert ending.reason is Reason.CASES_CRASHED
        assert RUNNING_CASE in ending.message
        assert attempt_record.suspect_nodes(again, ending) == []


def test_the_next_gang_must_not_have_the_suspect_nodes_and_rather_not_the_others_of_the_lost_one() -> None:
    ready = evidence(test=after(a_record()), has_job=False, has_service=True, nodes=NODES, seconds=200)
    assert next_step(ready) == actions.CreateJob(attempt=2, avoid=("node1",), avoid_if_possible=("node0",))


@pytest.mark.parametrize(
    "nodes",
    [NODES[:2], (*NODES[:2], NodeView(name="node2", labels={}, allocatable={}, is_schedulable=False)), ()],
    ids=["too few", "the third is cordoned", "no nodes are known"],
)
def test_with_too_few_nodes_left_it_tries_again_on_the_same(nodes: tuple[NodeView, ...]) -> None:
    ready = evidence(test=after(a_record()), has_job=False, has_service=True, nodes=nodes, seconds=200)
    assert next_step(ready) == actions.CreateJob(attempt=2, avoid=(), avoid_if_possible=("node1", "node0"))


def test_pods_on_one_node_need_only_one_other() -> None:
    test = after(a_record(), placement=Placement.ANY)
    ready = evidence(test=test, has_job=False, has_service=True, nodes=NODES[1:3], seconds=200)
    assert next_step(ready) == actions.CreateJob(attempt=2, avoid=("node1",), avoid_if_possible=("node0",))


def test_the_job_of_the_previous_attempt_is_deleted_first_and_its_pods_have_time_to_end() -> None:
    test = after(a_record())
    old = a_job(uid="old")
    assert next_step(evidence(test=test, has_job=False, leftovers=(old,), seconds=70)) == actions.DeleteJob(
        name="nightly-a1", uid="old"
    )
    going = a_pod(0)
    waiting = evidence(going, test=test, has_job=False, nodes=NODES, seconds=70)
    assert not isinstance(next_step(waiting), actions.CreateJob)
    late = evidence(going, test=test, has_job=False, has_service=True, nodes=NODES, seconds=60 + 46)
    assert isinstance(next_step(late), actions.CreateJob), "a node that is gone never says that its pods are"


def test_time_that_the_infrastructure_wasted_counts_and_time_that_a_queue_took_does_not() -> None:
    assert attempts.run_seconds_left(a_test()) == 300
    assert attempts.run_seconds_left(after(a_record())) == 300 - 55
    assert attempts.run_seconds_left(after(a_record(charged=False))) == 300
    long = a_record(completionTime="2026-11-21T02:30:00Z")
    assert attempts.run_seconds_left(after(long)) == attempts.MIN_RUN_SECONDS


def test_runs_that_released_their_nodes_wait_longer_each_time_with_jitter() -> None:
    given_back = [a_record(number, reason="GangTimeout", charged=False) for number in (1, 2, 3)]
    pauses = []
    for count in (1, 2, 3):
        moment = attempts.not_before(after(*given_back[:count]))
        assert moment is not None
        pauses.append((moment - at(60)).total_seconds())
    for pause, middle in zip(pauses, (10, 20, 40), strict=True):
        assert middle / 2 <= pause <= middle * 1.5
    other = a_test(uid="another", status=after(given_back[0]).status)
    assert attempts.not_before(other) != attempts.not_before(after(given_back[0]))
    assert attempts.not_before(after(a_record())) is None


def test_the_wait_for_nodes_continues_after_half_a_gang_was_released_and_restarts_after_a_whole_one() -> None:
    created, ended = at(0), at(60)
    assert attempts.queued_since(after(a_record(reason="GangTimeout")), at(100)) == created
    assert attempts.queued_since(after(a_record()), at(100)) == ended


@pytest.mark.parametrize(
    ("word", "reason", "since_seconds"),
    [("True", "SpecSuspend", 100), ("False", "Resumed", 90), ("False", "Admitted", 0), ("True", "Queued", 0)],
)
def test_only_a_suspension_by_the_spec_stops_the_clock(word: str, reason: str, since_seconds: int) -> None:
    condition = {"type": "Suspended", "status": word, "reason": reason, "lastTransitionTime": "2026-11-21T02:01:30Z"}
    test = a_test(status={"conditions": [condition]})
    assert attempts.queued_since(test, at(100)) == at(since_seconds)


def test_of_many_records_those_that_count_are_kept() -> None:
    many = tuple(a_record(number, charged=number == 1) for number in range(1, 9))
    kept = [one["number"] for one in attempts.keep(many, a_record(9, charged=False))]
    assert kept == [1, 3, 4, 5, 6, 7, 8, 9]


def test_a_younger_run_releases_half_a_gang_sooner_than_an_older_one() -> None:
    half = (a_pod(0), an_unscheduled_pod(1))
    patience = Policy().rival_patience_seconds
    younger = evidence(*half, seconds=3 + patience, has_older_rival=True)
    older = evidence(*half, seconds=3 + patience)
    assert classify(younger) is not None
    assert classify(older) is None
    step = next_step(older)
    assert isinstance(step, actions.WriteStatus | actions.Done | actions.ReadEvents)


def test_a_suspended_run_makes_nothing_and_never_times_out() -> None:
    test = a_test(spec=a_spec(suspend=True))
    step = next_step(evidence(test=test, has_job=False, seconds=10_000))
    assert isinstance(step, actions.WriteStatus)
    assert step.status["phase"] == "Queued"
    (suspended,) = [one for one in step.status["conditions"] if one["type"] == "Suspended"]
    assert (suspended["status"], suspended["reason"]) == ("True", "SpecSuspend")
    assert next_step(evidence(test=a_test(spec=a_spec(suspend=True), status=step.status), has_job=False)) is not None


def test_a_run_that_waits_for_an_older_one_names_it() -> None:
    step = next_step(evidence(has_job=False, older_run="nightly-0", seconds=5))
    assert isinstance(step, actions.WriteStatus)
    assert "run 'nightly-0' of the series has not finished" in step.status["message"]


def test_a_cancelled_run_creates_nothing() -> None:
    step = next_step(evidence(test=a_test(spec=a_spec(cancel=True)), has_job=False, seconds=1))
    assert isinstance(step, actions.Fold)
    assert step.entry["verdict"] == "Cancelled"


def test_jobs_of_earlier_attempts_go_even_when_the_run_is_finished() -> None:
    test = a_test(status={"verdict": "Cancelled", "attempt": 1, "completionTime": "2026-11-21T02:01:00Z"})
    late = evidence(test=test, has_job=False, leftovers=(a_job(name="nightly-a0", uid="old"),), seconds=70)
    assert next_step(late) == actions.DeleteJob(name="nightly-a0", uid="old")


def test_the_pause_is_not_longer_than_the_maximum() -> None:
    many = [a_record(number, reason="GangTimeout", charged=False) for number in range(1, 9)]
    moment = attempts.not_before(after(*many))
    assert moment is not None
    assert moment - at(60) <= timedelta(seconds=attempts.BACKOFF_MAX_SECONDS * 1.5)
