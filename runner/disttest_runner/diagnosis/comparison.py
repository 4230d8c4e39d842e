"""Compares the flight recorders and stacks of all ranks: which wait in which collective, which never joined it. Pure.

A rank that waits for others is a victim. The culprits are those it waits for, unless they wait for others themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum

from disttest_runner.diagnosis.flight_recorder import TEXT_CHARACTERS, GroupTrace, RecordedOperation
from disttest_runner.diagnosis.observation import RankObservation

# Operations in which all ranks have as many elements; in others they may differ.
EVEN = ("all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base", "barrier")


class FindingKind(StrEnum):
    ABSENT = "absent"  # some never joined the collective that others wait in
    CYCLE = "cycle"  # each of them waits for another, in different groups
    MISMATCH = "mismatch"  # they joined with different operations, types or sizes
    STUCK = "stuck"  # all of them joined the same one, and it does not end
    UNPROVEN = "unproven"  # some wait in a collective, and whether the others have joined it is not known
    ELSEWHERE = "elsewhere"  # by their stacks: some wait for others, and these do something else
    SILENT = "silent"  # no rank waits in a collective, and some did not answer
    UNKNOWN = "unknown"  # no proof which ranks are at fault


@dataclass(frozen=True, slots=True, kw_only=True)
class HangFinding:
    """`culprits` are empty when nothing proves which ranks are at fault."""

    kind: FindingKind
    culprits: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    group: GroupTrace | None = None  # as recorded by one of the ranks that wait
    number: int = 0
    absent: Mapping[int, int] = field(default_factory=dict)  # rank -> the last number that it joined, as far as known
    sides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # `all_reduce of float32[4]` -> ranks


@dataclass(frozen=True, slots=True)
class _PendingCollective:
    """A group in which ranks wait, and the first collective that has not ended."""

    group: GroupTrace
    number: int
    waiting: tuple[int, ...]  # in this collective
    beyond: tuple[int, ...]  # in a later one of the group
    members: tuple[int, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        return *self.group.key, self.group.life

    @property
    def victims(self) -> tuple[int, ...]:
        return *self.waiting, *self.beyond


def compare(seen: Mapping[int, RankObservation], *, unfinished: AbstractSet[int], ranks: Iterable[int]) -> HangFinding:
    """`ranks` take part in the case; `seen` lacks those that could not be asked."""
    all_ranks = frozenset(ranks)
    collectives = [
        pending for pending in _pending_collectives(seen) if any(rank in unfinished for rank in pending.waiting)
    ]
    for pending in collectives:
        mismatch = _mismatch(seen, pending)
        if mismatch:
            return mismatch
    missing = {pending.key: _absent(seen, pending, all_ranks) for pending in collectives}
    if any(missing.values()):
        return _blame_absent(seen, collectives, missing)
    if collectives:
        return _stuck(seen, collectives[0], all_ranks)
    return _by_stacks(seen, unfinished)


def _pending_collectives(seen: Mapping[int, RankObservation]) -> list[_PendingCollective]:
    """Return one for each life of a group in which ranks wait, that with the most waiting ranks first."""
    waiting: dict[tuple[str, str, int], dict[int, GroupTrace]] = {}
    for rank, one in seen.items():
        for group in one.trace.groups if one.trace else ():
            if group.pending:
                waiting.setdefault((*group.key, group.life), {})[rank] = group
    found = []
    for by_rank in waiting.values():
        number = min(group.pending.number for group in by_rank.values() if group.pending)
        members = next((group.members for group in by_rank.values() if group.members), ())
        here = tuple(r for r, group in sorted(by_rank.items()) if group.pending and group.pending.number == number)
        beyond = tuple(sorted(by_rank.keys() - set(here)))
        found.append(_PendingCollective(by_rank[here[0]], number, here, beyond, members))
    return sorted(found, key=lambda pending: -len(pending.waiting))


def _of(seen: Mapping[int, RankObservation], rank: int, pending: _PendingCollective) -> GroupTrace | None:
    one = seen.get(rank)
    return one.trace.group(*pending.group.key, pending.group.life) if one and one.trace else None


def _absent(
    seen: Mapping[int, RankObservation], pending: _PendingCollective, all_ranks: AbstractSet[int]
) -> dict[int, int]:
    """Return the members that have not called the collective, each with the number of its last call."""
    found = {}
    members = pending.members or tuple(
        rank for rank in all_ranks if _is_default(pending.group) or _of(seen, rank, pending)
    )
    for rank in sorted((all_ranks & set(members)) - set(pending.victims)):
        group = _of(seen, rank, pending)
        was_there_before = group is not None and group.life != pending.group.life
        if group is None:
            if _is_unknown(seen.get(rank)):
                continue
            found[rank] = 0
        elif was_there_before or group.last < pending.number:
            # a higher number is of another group with that name, made by an earlier case
            found[rank] = group.last if group.last < pending.number else 0
    return found


def _is_unknown(one: RankObservation | None) -> bool:
    """Whether a rank could not be asked, or has no recorder: neither proves that it has not joined."""
    return one is None or (one.trace is None and (not one.silent or one.is_excused))


def _is_default(group: GroupTrace) -> bool:
    return group.description == "default_pg"


def _blame_absent(
    seen: Mapping[int, RankObservation],
    collectives: list[_PendingCollective],
    missing: Mapping[tuple[str, str, int], dict[int, int]],
) -> HangFinding:
    absent = {rank for ranks in missing.values() for rank in ranks}
    waiting = {rank for m in collectives if missing[m.key] for rank in m.victims}
    culprits = absent - waiting
    kind = FindingKind.ABSENT if culprits else FindingKind.CYCLE
    culprits = culprits or absent
    # a rank may also wait in a send, a receive or a store
    culprits = {rank for rank in culprits if not seen[rank].waits_in} or culprits
    pending = next(m for m in collectives if culprits & missing[m.key].keys())
    return HangFinding(
        kind=kind,
        culprits=tuple(sorted(culprits)),
        waiting=pending.waiting,
        group=pending.group,
        number=pending.number,
        absent=missing[pending.key],
    )


def _stuck(
    seen: Mapping[int, RankObservation], pending: _PendingCollective, all_ranks: AbstractSet[int]
) -> HangFinding:
    """All ranks have joined the collective, as far as is known."""
    members = all_ranks & set(pending.members or all_ranks)
    unknown = sorted(rank for rank in members if _is_unknown(seen.get(rank)))
    return HangFinding(
        kind=FindingKind.UNPROVEN if unknown else FindingKind.STUCK,
        waiting=pending.waiting,
        group=pending.group,
        number=pending.number,
        absent=dict.fromkeys(unknown, 0),
    )


def _mismatch(seen: Mapping[int, RankObservation], pending: _PendingCollective) -> HangFinding | None:
    """Return the first collective that ranks joined with different operations, types or sizes."""
    groups = {rank: _of(seen, rank, pending) for rank in pending.members or sorted(seen)}
    same_life = {rank: group for rank, group in groups.items() if group and group.life == pending.group.life}
    # ranks do not wait for one that ended in spite of a difference
    numbers = {e.number for group in same_life.values() for e in group.entries if not e.is_p2p and not e.is_done}
    for number in sorted(numbers):
        entries = {rank: entry for rank, group in same_life.items() if (entry := group.entry(number))}
        sides: dict[tuple[str, str, int], list[int]] = {}
        for rank, entry in entries.items():
            sides.setdefault(_identity(entry), []).append(rank)
        if len(sides) > 1:
            return HangFinding(
                kind=FindingKind.MISMATCH,
                culprits=_odd(list(sides.values())),
                waiting=pending.waiting,
                group=pending.group,
                number=number,
                sides={_side(entries[ranks[0]]): tuple(ranks) for ranks in sides.values()},
            )
    return None


def _odd(sides: Sequence[list[int]]) -> tuple[int, ...]:
    """Return the ranks that differ from the largest side; all ranks if several sides have its size."""
    largest, second = sorted((len(ranks) for ranks in sides), reverse=True)[:2]
    return tuple(sorted(rank for ranks in sides if largest == second or len(ranks) < largest for rank in ranks))


def _identity(entry: RecordedOperation) -> tuple[str, str, int]:
    """Return what ranks must agree on; types and sizes only where they must be equal."""
    if entry.op not in EVEN:
        return entry.op, "", 0
    return entry.op, entry.what.partition("[")[0], entry.elements


def _side(entry: RecordedOperation) -> str:
    count = f" ({entry.elements} elements)" if len(entry.what) >= TEXT_CHARACTERS else ""
    return f"{entry.op} of {entry.what}{count}" if entry.what else entry.op


def _by_stacks(seen: Mapping[int, RankObservation], unfinished: AbstractSet[int]) -> HangFinding:
    """Compare stacks, when no recorder shows a rank that waits."""
    asked = {rank: seen[rank] for rank in sorted(unfinished) if rank in seen}
    waiting = tuple(rank for rank, one in asked.items() if one.waits_in)
    silent = tuple(rank for rank, one in asked.items() if one.silent and not one.is_excused)
    others = tuple(rank for rank, one in asked.items() if rank not in waiting and (one.place.at or rank in silent))
    if waiting and others:
        return HangFinding(kind=FindingKind.ELSEWHERE, culprits=others, waiting=waiting)
    if silent and len(silent) < len(asked):
        return HangFinding(kind=FindingKind.SILENT, culprits=silent, waiting=waiting)
    return HangFinding(kind=FindingKind.UNKNOWN, waiting=waiting)
