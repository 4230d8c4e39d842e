"""The endings of a case by rank, grouped where ranks ended alike: regular, after late exits, or interrupted. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Outcome, Reason
from disttest_contract.results.report import CaseResult, RankEnding, RankGroup
from disttest_runner.protocol.join_protocol import RunEnd
from disttest_runner.results import blame
from disttest_runner.results.blame import CaseEvidence, WaitEnd, World

NUMBERS = re.compile(r"\d+")
ADDRESSES = re.compile(r"0x[0-9a-f]+")  # of objects: different in each process
COMPARED = 8  # texts of one shape that a text is compared with: limits the time if ranks fail in hundreds of ways

RENAMED = {
    Outcome.HUNG: RankEnding.UNFINISHED,
    Outcome.NOT_RUN: RankEnding.SKIPPED,  # with its reason as the message
}
# All outcomes, although a rank never sends some of them: test code runs in the process that sends.
ENDINGS = {outcome: RENAMED.get(outcome) or RankEnding(outcome.value) for outcome in Outcome}
BAD_ENDINGS = frozenset({RankEnding.FAILED, RankEnding.ERRORED, RankEnding.CRASHED, RankEnding.UNFINISHED})
# Completes `still running after 12 s when …`; other reasons are shown by name.
CAUSES: Mapping[Reason, str] = {
    Reason.RUN_TIMEOUT: "the run timed out",
    Reason.TERMINATED: "the run was terminated",
    Reason.CANCELLED: "the run was interrupted",
    Reason.GANG_LOST: "an agent was lost",
}


@dataclass(frozen=True, slots=True)
class RankEnd:
    ending: RankEnding
    message: str = ""


def judge_case(case_id: str, evidence: CaseEvidence, world: World, at: float | None = None) -> CaseResult:
    """Return the result with the endings and logs of ranks; `at` is its start in seconds."""
    result = blame.judge_case(case_id, evidence, world)
    result = replace(result, logs=_logs(result, evidence))
    at = None if result.outcome is Outcome.NOT_RUN else at
    return replace(result, by_rank=by_rank(result, evidence, world), at=at)


def by_rank(result: CaseResult, evidence: CaseEvidence, world: World) -> tuple[RankGroup, ...]:
    return groups(_each(result, evidence, world), world, blamed=result.ranks)


def _logs(result: CaseResult, evidence: CaseEvidence) -> dict[int, str]:
    logs = {**evidence.logs, **{rank: said.log for rank, said in evidence.said.items() if said.log}}
    first = dict.fromkeys([*result.ranks, *sorted(logs)])
    found = {rank: logs[rank] for rank in first if rank in logs}
    return dict(list(found.items())[: limits.RANK_GROUPS])


def judge_late_exits(
    before: CaseResult, exits: Mapping[int, int], world: World, *, logs: Mapping[int, str] | None = None
) -> CaseResult:
    """Return a case whose ranks ended after they had reported it; for other ranks the reported ending counts."""
    evidence = CaseEvidence(end=blame.WaitEnd.DIED, seconds=before.seconds, said={}, exits=exits, logs=logs or {})
    result = blame.judge_case(before.id, evidence, world)
    own = before.by_rank or (RankGroup(ranks=tuple(range(world.size)), ending=ENDINGS[before.outcome]),)
    ends = {rank: RankEnd(group.ending, group.message) for group in own for rank in group.ranks}
    ends |= {rank: RankEnd(RankEnding.CRASHED, blame.how_it_ended(status)) for rank, status in exits.items()}
    return replace(result, by_rank=groups(ends, world, blamed=result.ranks), at=before.at, logs=_logs(result, evidence))


def groups(ends: Mapping[int, RankEnd], world: World, *, blamed: Iterable[int]) -> tuple[RankGroup, ...]:
    """Group ranks: those at fault first, then the largest groups. Empty if all ranks ended alike and well."""
    if len({end.ending for end in ends.values()}) == 1 and not BAD_ENDINGS & {end.ending for end in ends.values()}:
        return ()
    guilty = frozenset(blamed)
    together = [
        RankGroup(
            ranks=tuple(ranks), ending=end.ending, message=limits.cut_middle(end.message, limits.RANK_MESSAGE_BYTES)
        )
        for ranks, end in _alike(ends, world)
    ]
    together.sort(key=lambda group: (guilty.isdisjoint(group.ranks), -len(group.ranks), group.ranks))
    return _few(together)


def _each(result: CaseResult, evidence: CaseEvidence, world: World) -> dict[int, RankEnd]:
    """The end of a process outweighs what it reported, unless its failure is the cause of that end."""
    ends = {}
    for rank in range(world.size):
        said, status = evidence.said.get(rank), evidence.exits.get(rank)
        is_consequence = said is not None and result.outcome is not Outcome.CRASHED and rank in result.ranks
        if status is not None and not is_consequence:
            how = blame.how_it_ended(status)
            cause = evidence.exit_causes.get(rank, "")
            ends[rank] = RankEnd(RankEnding.CRASHED, f"{how}: {cause}" if cause else how)
        elif said is None:
            ends[rank] = RankEnd(RankEnding.UNFINISHED)
        else:
            ends[rank] = RankEnd(RankEnding.IDLE if said.outcome is None else ENDINGS[said.outcome], said.message)
    return ends


def _alike(ends: Mapping[int, RankEnd], world: World) -> list[tuple[list[int], RankEnd]]:
    """Group equal texts that differ in ranks' own numbers: `rank 3 is odd` and `rank 5 is odd` are one group."""
    same: dict[RankEnd, list[int]] = {}
    for rank in sorted(ends):
        same.setdefault(ends[rank], []).append(rank)
    shapes: dict[tuple[RankEnding, str], list[tuple[list[int], RankEnd, Sequence[str]]]] = {}
    for end, ranks in same.items():
        text = ADDRESSES.sub("0x", end.message)
        numbers = NUMBERS.findall(text) if len(ranks) == 1 else []
        known = shapes.setdefault((end.ending, NUMBERS.sub("#", text)), [])
        for first, _, others in known[:COMPARED] if numbers else ():
            own = _own_numbers(first[0], ranks[0], world)
            if others and all(a == b or (a, b) in own for a, b in zip(others, numbers, strict=True)):
                first.extend(ranks)
                break
        else:
            known.append((ranks, end, numbers))
    return [(ranks, end) for found in shapes.values() for ranks, end, _ in found]


def _own_numbers(one: int, other: int, world: World) -> set[tuple[str, str]]:
    """Return pairs of the numbers of two ranks: rank, node index and local rank."""
    (node, local), (other_node, other_local) = (divmod(rank, world.ranks_per_node) for rank in (one, other))
    return {(str(a), str(b)) for a, b in ((one, other), (node, other_node), (local, other_local))}


def _few(together: Sequence[RankGroup]) -> tuple[RankGroup, ...]:
    """Keep the first groups; merge the others by ending, without messages."""
    most = limits.RANK_GROUPS
    if len(together) <= most:
        return tuple(together)
    kept = next(
        count for count in range(most, -1, -1) if count + len({group.ending for group in together[count:]}) <= most
    )
    return (*together[:kept], *without_messages(together[kept:]))


def without_messages(groups: Iterable[RankGroup]) -> tuple[RankGroup, ...]:
    """Merge groups that differ only in their messages."""
    ranks: dict[RankEnding, list[int]] = {}
    for group in groups:
        ranks.setdefault(group.ending, []).extend(group.ranks)
    return tuple(RankGroup(ranks=tuple(sorted(each)), ending=ending) for ending, each in ranks.items())


def judge_interrupted(case_id: str, evidence: CaseEvidence, world: World, at: float, *, stop: RunEnd) -> CaseResult:
    """Return the result that reports before the end of the run prove; otherwise the case was interrupted."""
    if _is_proven(evidence, world):
        return judge_case(case_id, evidence, world, at)
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
    return replace(result, by_rank=by_rank(result, evidence, world))


def _is_proven(evidence: CaseEvidence, world: World) -> bool:
    """Whether all ranks reported, or one failed that is not a victim of the end of the run."""
    if evidence.end is not WaitEnd.INTERRUPTED or len(evidence.said) == world.size:
        return True
    return any(said.outcome in BAD and not blame.is_victim(said.message) for said in evidence.said.values())
