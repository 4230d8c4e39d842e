"""What a stub pod does, as the annotations of the pod say."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Self

from devcluster.controlplane.kubeapi import Json
from disttest_contract.gang import environment
from disttest_contract.gang.plan import InvalidPlanError, RunPlan
from disttest_contract.outcomes import EXIT_CODES, Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, Report, SuiteResult
from disttest_contract.transport import frames
from disttest_contract.transport.termination_message import Summary

PREFIX = "stub.devcluster"
END = f"{PREFIX}/end"  # an End; a DistTest sets it with spec.template.metadata.annotations
SECONDS = f"{PREFIX}/seconds"  # how long the container runs
STOP_SECONDS = f"{PREFIX}/stop-seconds"  # how long it takes to end when its pod is deleted
CASES = f"{PREFIX}/cases"  # in the report
SILENT = f"{PREFIX}/silent"  # on a Node, "true": it sends nothing, as without power
NODE = f"{PREFIX}/node"  # label and taint of stub nodes, value "true"


class StubEnd(StrEnum):
    """How the container ends."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"  # its last case fails
    CRASH = "crash"  # killed in mid-case: 137, no report
    MUTE = "mute"  # exit code 0, without a report
    HANG = "hang"  # only when its pod is deleted
    LOSE = "lose"  # its node falls silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    end: StubEnd = StubEnd.PASS
    seconds: float = 0.0
    stop_seconds: float = 0.0
    cases: int = 2

    @classmethod
    def read(cls, annotations: Mapping[str, str]) -> Self:
        """Raises ValueError for an unknown word."""
        return cls(
            end=StubEnd(annotations.get(END, StubEnd.PASS)),
            seconds=float(annotations.get(SECONDS, "0")),
            stop_seconds=float(annotations.get(STOP_SECONDS, "0")),
            cases=int(annotations.get(CASES, "2")),
        )


INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
KILLED = 137  # 128 + SIGKILL
ENDED = 143  # 128 + SIGTERM, of a program that is no agent
RESULTS = {
    Verdict.PASSED: (Reason.ALL_CASES_PASSED, "all cases passed"),
    Verdict.TESTS_FAILED: (Reason.CASES_FAILED, "1 case failed"),
    Verdict.INFRA_FAILED: (Reason.TERMINATED, "ended by SIGTERM"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    code: int
    message: str = ""
    log: str = ""


def agent_end(manifest: Json, behaviour: Behaviour, started: float) -> Last:
    """Compute the end of a container that was not stopped."""
    plan, index = _plan_and_index(manifest)
    if behaviour.end is StubEnd.CRASH:
        return Last(code=KILLED)
    if plan is None or behaviour.end is StubEnd.MUTE:
        return Last(code=0, log="a stub pod has ended\n")
    is_bad = behaviour.end is StubEnd.FAIL
    verdict = Verdict.TESTS_FAILED if is_bad else Verdict.PASSED
    if index:
        return _ended(plan, index, verdict)
    raw = make_report(plan, verdict, behaviour.cases, started).dumps()
    log = "\n".join((f"a stub pod says {verdict}", *frames.encode(raw, _env(manifest)[environment.NONCE]), ""))
    return _ended(plan, index, verdict, hashlib.sha256(raw).hexdigest(), log)


def agent_stopped(manifest: Json) -> Last:
    """Compute the end of a container whose pod was deleted."""
    plan, index = _plan_and_index(manifest)
    return _ended(plan, index, Verdict.INFRA_FAILED) if plan else Last(code=ENDED)


def _ended(plan: RunPlan, index: int, verdict: Verdict, sha256: str = "", log: str = "") -> Last:
    reason, message = RESULTS[verdict]
    summary = Summary(
        uid=plan.uid,
        attempt=plan.attempt,
        node_index=index,
        step="finished",
        verdict=verdict,
        reason=reason,
        message=message,
        report_sha256=sha256,
    )
    return Last(code=EXIT_CODES[verdict], message=summary.to_bytes().decode(), log=log)


def make_report(plan: RunPlan, verdict: Verdict, cases: int, started: float) -> Report:
    reason, message = RESULTS[verdict]
    bad = verdict is not Verdict.PASSED
    suites = tuple(
        _suite(suite.name, cases, is_bad=bad and number == len(plan.suites))
        for number, suite in enumerate(plan.suites, start=1)
    )
    return Report(
        namespace=plan.namespace,
        name=plan.name,
        uid=plan.uid,
        attempt=plan.attempt,
        backend=plan.backend,
        nodes=plan.nodes,
        ranks_per_node=plan.ranks_per_node,
        node_names=tuple(f"stub-{index}" for index in range(plan.nodes)),
        versions={"stub": "1"},
        verdict=verdict,
        reason=reason,
        message=message,
        started=started,
        joined=started,
        first_case=started,
        last_case=time.time(),
        finished=time.time(),
        generations=1,
        suites=suites,
    )


def _suite(name: str, cases: int, *, is_bad: bool) -> SuiteResult:
    results = [_case(number) for number in range(cases - is_bad)]
    if is_bad:
        results.append(
            CaseResult(
                id=f"stub.py::test_{cases - 1}", outcome=Outcome.FAILED, seconds=0.001, message="failed as annotated"
            )
        )
    verdict = Verdict.TESTS_FAILED if is_bad else Verdict.PASSED
    return SuiteResult(name=name, verdict=verdict, reason=RESULTS[verdict][0], seconds=0.01, cases=tuple(results))


@lru_cache
def _case(number: int) -> CaseResult:
    return CaseResult(id=f"stub.py::test_{number}", outcome=Outcome.PASSED, seconds=0.001)


def _plan_and_index(manifest: Json) -> tuple[RunPlan | None, int]:
    """Return the plan, if it is a pod of ours, and the node index."""
    text = _env(manifest).get(environment.PLAN)
    labels = manifest["metadata"].get("labels") or {}
    try:
        return (RunPlan.from_json(text) if text else None), int(labels.get(INDEX_LABEL, "0"))
    except InvalidPlanError as error:
        print(f"pod {manifest['metadata']['name']}: {error}", flush=True)
        return None, 0


def _env(manifest: Json) -> dict[str, str]:
    env = manifest["spec"]["containers"][0].get("env") or []
    return {entry["name"]: entry.get("value", "") for entry in env}
