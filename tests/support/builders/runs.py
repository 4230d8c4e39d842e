"""Runs for unit tests: each builder gives the usual, and takes what differs."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict, judge
from disttest_contract.results.report import CaseResult, Earlier, Report, SuiteResult, judge_cases
from disttest_contract.transport.termination_message import Summary
from disttest_operator.core.api.model import Backend, DistTest, Spec, Suite, Timeouts
from disttest_operator.core.observed.evidence import Evidence, Observed, Policy, ReportFound
from disttest_operator.core.observed.objects import Condition, ConditionStatus, ContainerExit, JobView, PodView

CREATED = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"
NONCE = "00ff"
STEP = "finished"


def at(seconds: float) -> datetime:
    """The time a number of seconds after the creation of the DistTest."""
    return CREATED + timedelta(seconds=seconds)


def a_spec(**changes: Any) -> Spec:
    usual: dict[str, Any] = {
        "suites": (Suite(name="collectives", builtin="collectives"),),
        "nodes": 2,
        "gpus_per_node": 0,
        "ranks_per_node": 2,
        "backend": Backend.GLOO,
        "image": "runner:1",
        "timeouts": Timeouts(queue_seconds=600, rendezvous_seconds=60, case_seconds=60, run_seconds=300),
    }
    return Spec(**usual | changes)


def a_test(status: Mapping[str, Any] | None = None, **changes: Any) -> DistTest:
    usual: dict[str, Any] = {
        "namespace": "gpu-ci",
        "name": "nightly",
        "uid": UID,
        "generation": 1,
        "resource_version": "10",
        "created": CREATED,
        "is_deleting": False,
        "spec": a_spec(),
        "runner_image": "runner:1",
        "status": status or {},
    }
    return DistTest(**usual | changes)


def a_job(**changes: Any) -> JobView:
    usual: dict[str, Any] = {
        "namespace": "gpu-ci",
        "name": "nightly-a1",
        "uid": "job-uid",
        "resource_version": 11,
        "owner_uid": UID,
        "run": "nightly",
        "created": at(1),
        "started": at(1),
        "is_deleting": False,
        "is_suspended": False,
        "nonce": NONCE,
    }
    return JobView(**usual | changes)


def a_pod(index: int = 0, **changes: Any) -> PodView:
    """One whose container runs since second 5."""
    usual: dict[str, Any] = {
        "namespace": "gpu-ci",
        "name": f"nightly-a1-{index}-abcde",
        "uid": f"pod-{index}",
        "resource_version": 20 + index,
        "run": "nightly",
        "run_uid": UID,
        "attempt": 1,
        "index": index,
        "created": at(2),
        "node": f"node{index}",
        "phase": "Running",
        "conditions": {"PodScheduled": condition(since=at(3))},
        "started": at(5),
    }
    return PodView(**usual | changes)


def a_waiting_pod(index: int, reason: str, *, since_seconds: float = 5, image: str = "") -> PodView:
    waiting = {"waiting_reason": reason, "waiting_message": "no such thing", "waiting_since": at(since_seconds)}
    return a_pod(index, phase="Pending", started=None, waiting_image=image, **waiting)


def a_pod_without_runner(index: int, code: int, *, phase: str = "Failed", **changes: Any) -> PodView:
    """The copying of the runner into it ended so; `reason` and `message` go to that end, the rest to the pod."""
    parts = {key: changes.pop(key) for key in ("reason", "message") if key in changes}
    end = ContainerExit(code=code, at=at(6), **parts)
    waiting = {"waiting_reason": "PodInitializing", "waiting_since": at(4)}
    return a_pod(index, phase=phase, started=None, injected=end, ending_since=at(6), **waiting | changes)


def an_unscheduled_pod(index: int, words: str = "0/2 nodes are available") -> PodView:
    scheduled = condition(reason="Unschedulable", message=words, is_true=False)
    return a_pod(index, phase="Pending", node="", started=None, conditions={"PodScheduled": scheduled})


def an_ended_pod(index: int, code: int, *, seconds: float = 20, **changes: Any) -> PodView:
    """`summary`, `reason` and `message` go to its exit, the rest to the pod."""
    parts = {key: changes.pop(key) for key in ("summary", "reason", "message", "signal") if key in changes}
    end = ContainerExit(code=code, at=at(seconds), **parts)
    phase = "Failed" if code else "Succeeded"
    return a_pod(index, phase=phase, exit=end, ending_since=at(seconds), **changes)


def a_disrupted_pod(index: int, reason: str, *, seconds: float = 20, **changes: Any) -> PodView:
    disruption = condition(reason=reason, message="said so")
    return a_pod(index, conditions={"DisruptionTarget": disruption}, ending_since=at(seconds), **changes)


def condition(*, reason: str = "", message: str = "", is_true: bool = True, since: datetime | None = None) -> Condition:
    status = ConditionStatus.TRUE if is_true else ConditionStatus.FALSE
    return Condition(reason=reason, message=message, status=status, since=since)


def a_summary(**changes: Any) -> Summary:
    usual: dict[str, Any] = {"uid": UID, "attempt": 1, "node_index": 0, "step": STEP}
    return Summary(**usual | changes)


def a_suite(name: str, outcomes: Mapping[str, Outcome]) -> SuiteResult:
    cases = tuple(
        CaseResult(id=f"t.py::{case}", outcome=outcome, seconds=0.5, message="" if outcome == "passed" else "why")
        for case, outcome in outcomes.items()
    )
    verdict, reason = judge(Counts.of(outcomes.values()))
    return SuiteResult(name=name, verdict=verdict, reason=reason, seconds=1.5, cases=cases)


def a_flaky_case(name: str = "test_flaky", *tries: Outcome, outcome: Outcome = Outcome.PASSED) -> CaseResult:
    """Rank 3 was at fault in every earlier try."""
    earlier = tuple(
        Earlier(outcome=one, seconds=0.25, message=f"try {number}", ranks=(3,), nodes=("node1",))
        for number, one in enumerate(tries or (Outcome.FAILED,))
    )
    return CaseResult(id=f"t.py::{name}", outcome=outcome, seconds=0.5, earlier=earlier)


def a_report_of(*cases: CaseResult, **changes: Any) -> Report:
    """One suite with these cases."""
    verdict, reason = judge_cases(cases)
    suite = SuiteResult(name="collectives", verdict=verdict, reason=reason, seconds=1.5, cases=cases)
    return a_report(**{"verdict": verdict, "reason": reason, "suites": (suite,)} | changes)


def a_report(outcomes: Mapping[str, Outcome] | None = None, **changes: Any) -> Report:
    suite = a_suite("collectives", outcomes or {"test_a": Outcome.PASSED, "test_b": Outcome.PASSED})
    verdict, reason = judge(suite.counts)
    usual: dict[str, Any] = {
        "namespace": "gpu-ci",
        "name": "nightly",
        "uid": UID,
        "attempt": 1,
        "backend": "gloo",
        "nodes": 2,
        "ranks_per_node": 2,
        "node_names": ("node0", "node1"),
        "versions": {"torch": "2.13.0"},
        "verdict": verdict,
        "reason": reason,
        "message": f"{suite.counts[Outcome.PASSED]} cases passed",
        "started": at(5).timestamp(),
        "joined": at(7).timestamp(),
        "first_case": at(8).timestamp(),
        "last_case": at(19).timestamp(),
        "finished": at(19.5).timestamp(),
        "generations": 1,
        "suites": (suite,),
    }
    return Report(**usual | changes)


def a_bad_report(verdict: Verdict, reason: Reason, message: str = "as the leader says") -> Report:
    return a_report(verdict=verdict, reason=reason, message=message, suites=())


def found(report: Report) -> ReportFound:
    raw = report.dumps()
    return ReportFound(report=report, raw=raw, sha256=hashlib.sha256(raw).hexdigest())


def evidence(  # what there is to know about a run
    *pods: PodView,
    seconds: float = 20,
    test: DistTest | None = None,
    job: JobView | None = None,
    has_job: bool = True,
    policy: Policy | None = None,
    **seen: Any,
) -> Evidence:
    """Pods of a gang whose Job exists, `seconds` after the DistTest was created."""
    observed = Observed(job=(job or a_job()) if has_job else None, pods=pods, **seen)
    return Evidence(test=test or a_test(), seen=observed, policy=policy or Policy(), now=at(seconds))
