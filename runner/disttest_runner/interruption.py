"""What is reported of the case that is running when the run ends: what its ranks were doing, and no blame. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from disttest_contract.outcomes import BAD, Outcome, Reason
from disttest_contract.report import CaseResult
from disttest_runner import blame, endings
from disttest_runner.blame import End, Evidence, World
from disttest_runner.door import Stop

# `still running after 12 s when …`; another reason is named as it is.
CAUSES: Mapping[Reason, str] = {
    Reason.RUN_DEADLINE: "the run timed out",
    Reason.TERMINATED: "the run was terminated",
    Reason.CANCELLED: "the run was interrupted",
    Reason.GANG_LOST: "an agent was lost",
}


def judge_case(case_id: str, evidence: Evidence, world: World, at: float, *, stop: Stop) -> CaseResult:
    """The case's own result, if what ranks reported before the run ended proves one; else it was interrupted."""
    if _is_proven(evidence, world):
        return endings.judge_case(case_id, evidence, world, at)
    waiting = blame.unfinished(evidence, world)
    culprits, diagnosis = blame.diagnosed(evidence, world)
    cause = CAUSES.get(stop.reason, f"the run ended ({stop.reason.value})")
    late = f"still running after {evidence.seconds:.0f} s when {cause}"
    result = CaseResult(
        id=case_id,
        outcome=Outcome.NOT_RUN,
        seconds=evidence.seconds,
        at=at,
        message=f"{late}; {diagnosis.summary}" if diagnosis.summary else late,
        stacks=blame.stacks_of([*culprits, *waiting], evidence),
        diagnosis=diagnosis if evidence.seen else None,
    )
    return replace(result, by_rank=endings.by_rank(result, evidence, world))


def _is_proven(evidence: Evidence, world: World) -> bool:
    """A rank whose error is the consequence of another one's end, as the end of the run may be, proves nothing."""
    if evidence.end is not End.INTERRUPTED or len(evidence.said) == world.size:
        return True
    return any(said.outcome in BAD and not blame.is_victim(said.message) for said in evidence.said.values())
