"""What the agent of a stub pod leaves: exit code, termination message, and the leader's log with its report."""

import hashlib
import time
from dataclasses import dataclass
from functools import lru_cache

from devcluster.kubeapi import Json
from devcluster.stubnode.behaviour import Behaviour, End
from disttest_contract import environment, frames
from disttest_contract.exits import EXIT_CODES
from disttest_contract.message import Summary
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.plan import InvalidPlanError, RunPlan
from disttest_contract.report import CaseResult, Report, SuiteResult

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
KILLED = 137  # 128 + SIGKILL
ENDED = 143  # 128 + SIGTERM, of a program that is no agent
SAYS = {
    Verdict.PASSED: (Reason.ALL_CASES_PASSED, "all cases passed"),
    Verdict.TESTS_FAILED: (Reason.CASES_FAILED, "1 case failed"),
    Verdict.INFRA_FAILED: (Reason.TERMINATED, "ended by SIGTERM"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The end of a container."""

    code: int
    message: str = ""
    log: str = ""


def end(manifest: Json, behaviour: Behaviour, started: float) -> Last:
    """The container ended by itself."""
    plan, index = _who(manifest)
    if behaviour.end is End.CRASH:
        return Last(code=KILLED)
    if plan is None or behaviour.end is End.MUTE:
        return Last(code=0, log="a stub pod has ended\n")
    is_bad = behaviour.end is End.FAIL
    verdict = Verdict.TESTS_FAILED if is_bad else Verdict.PASSED
    if index:
        return _told(plan, index, verdict)
    raw = _report(plan, verdict, behaviour.cases, started).dumps()
    log = "\n".join((f"a stub pod says {verdict}", *frames.encode(raw, _env(manifest)[environment.NONCE]), ""))
    return _told(plan, index, verdict, hashlib.sha256(raw).hexdigest(), log)


def stopped(manifest: Json) -> Last:
    """The pod was deleted while its container ran."""
    plan, index = _who(manifest)
    return _told(plan, index, Verdict.INFRA_FAILED) if plan else Last(code=ENDED)


def _told(plan: RunPlan, index: int, verdict: Verdict, sha256: str = "", log: str = "") -> Last:
    reason, message = SAYS[verdict]
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


def _report(plan: RunPlan, verdict: Verdict, cases: int, started: float) -> Report:
    reason, message = SAYS[verdict]
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
    """Of cases that passed, the last one failed if it is to be bad."""
    results = [_case(number) for number in range(cases - is_bad)]
    if is_bad:
        results.append(
            CaseResult(id=f"stub.py::test_{cases - 1}", outcome=Outcome.FAILED, seconds=0.001, message="as told")
        )
    verdict = Verdict.TESTS_FAILED if is_bad else Verdict.PASSED
    return SuiteResult(name=name, verdict=verdict, reason=SAYS[verdict][0], seconds=0.01, cases=tuple(results))


@lru_cache
def _case(number: int) -> CaseResult:
    return CaseResult(id=f"stub.py::test_{number}", outcome=Outcome.PASSED, seconds=0.001)


def _who(manifest: Json) -> tuple[RunPlan | None, int]:
    """The plan and the node index; without a plan it is somebody else's pod."""
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
