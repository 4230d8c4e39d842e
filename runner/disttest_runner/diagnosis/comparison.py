"""Who waits in which collective, and who never joined it: the flight recorders and stacks of all ranks compared. Pure.

A rank that waits for others is a victim. To blame are those whom it waits for, unless they wait for others again.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum

from disttest_runner.diagnosis.flight_recorder import TEXT_CHARACTERS, GroupTrace, RecordedOperation
from disttest_runner.diagnosis.observation import RankObservation

# Operations for which all ranks bring as many elements; others may differ by design.
EVEN = ("all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base", "barrier")


class FindingKind(StrEnum):
    ABSENT = "absent"  # some never joined the collective that others wait in
    CYCLE = "cycle"  # each of them waits for another, in different groups
    MISMATCH = "mismatch"  # they joined with different operations, types or sizes
    STUCK = "stuck"  # all of them joined the same one, and it does not end
    UNPROVEN = "unproven"  # some wait in a collective, and whether the others have joined it is not known
    ELSEWHERE = "elsewhere"  # by their stacks: some wait for others, and these do something else
    SILENT = "silent"  # nobody waits in a collective; some did not even answer
    UNKNOWN = "unknown"  # nothing proves who is to blame


@dataclass(frozen=True, slots=True, kw_only=True)
class HangFinding:
    """`culprits` are empty when nothing proves who is to blame."""

    kind: FindingKind
    culprits: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    group: GroupTrace | None = None  # as one of those who wait sees it
    number: int = 0
    absent: Mapping[int, int] = field(default_factory=dict)  # rank -> the last number that it joined, as far as known
    sides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # `all_reduce of float32[4]` -> ranks


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A group in which somebody waits, and the first collective that has not ended."""

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
    """`ranks` are those that have a part in the case; one of them that was not seen could not be asked."""
    everybody = frozenset(ranks)
    meetings = [meeting for meeting in _meetings(seen) if any(rank in unfinished for rank in meeting.waiting)]
    for meeting in meetings:
        mismatch = _mismatch(seen, meeting)
        if mismatch:
            return mismatch
    missing = {meeting.key: _absent(seen, meeting, everybody) for meeting in meetings}
    if any(missing.values()):
        return _blame_absent(seen, meetings, missing)
    if meetings:
        return _stuck(seen, meetings[0], everybody)
    return _by_stacks(seen, unfinished)


def _meetings(seen: Mapping[int, RankObservation]) -> list[_Meeting]:
    """One for each life of a group in which a rank waits; the one with the most ranks waiting comes first."""
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
        found.append(_Meeting(by_rank[here[0]], number, here, beyond, members))
    return sorted(found, key=lambda meeting: -len(meeting.waiting))


def _of(seen: Mapping[int, RankObservation], rank: int, meeting: _Meeting) -> GroupTrace | None:
    """The same group in another rank."""
    one = seen.get(rank)
    return one.trace.group(*meeting.group.key, meeting.group.life) if one and one.trace else None


def _absent(seen: Mapping[int, RankObservation], meeting: _Meeting, everybody: AbstractSet[int]) -> dict[int, int]:
    """Members that have not called the collective, each with the number of the last that it did call."""
    found = {}
    members = meeting.members or tuple(
        rank for rank in everybody if _is_default(meeting.group) or _of(seen, rank, meeting)
    )
    for rank in sorted((everybody & set(members)) - set(meeting.victims)):
        group = _of(seen, rank, meeting)
        was_there_before = group is not None and group.life != meeting.group.life
        if group is None:
            if _is_unknown(seen.get(rank)):
                continue
            found[rank] = 0
        elif was_there_before or group.last < meeting.number:
            # a higher number is of another group of that name, which an earlier case had made
            found[rank] = group.last if group.last < meeting.number else 0
    return found


def _is_unknown(one: RankObservation | None) -> bool:
    """It could not be asked, or answered without a recorder: neither proves that it is not there."""
    return one is None or (one.trace is None and (not one.silent or one.is_excused))


def _is_default(group: GroupTrace) -> bool:
    return group.description == "default_pg"


def _blame_absent(
    seen: Mapping[int, RankObservation],
    meetings: list[_Meeting],
    missing: Mapping[tuple[str, str, int], dict[int, int]],
) -> HangFinding:
    absent = {rank for ranks in missing.values() for rank in ranks}
    wait_for_somebody = {rank for m in meetings if missing[m.key] for rank in m.victims}
    culprits = absent - wait_for_somebody
    kind = FindingKind.ABSENT if culprits else FindingKind.CYCLE
    culprits = culprits or absent
    # a rank may wait in what is no collective: a send, a receive, a store
    culprits = {rank for rank in culprits if not seen[rank].waits_in} or culprits
    meeting = next(m for m in meetings if culprits & missing[m.key].keys())
    return HangFinding(
        kind=kind,
        culprits=tuple(sorted(culprits)),
        waiting=meeting.waiting,
        group=meeting.group,
        number=meeting.number,
        absent=missing[meeting.key],
    )


def _stuck(seen: Mapping[int, RankObservation], meeting: _Meeting, everybody: AbstractSet[int]) -> HangFinding:
    """Nobody is known to be missing."""
    members = everybody & set(meeting.members or everybody)
    unknown = sorted(rank for rank in members if _is_unknown(seen.get(rank)))
    return HangFinding(
        kind=FindingKind.UNPROVEN if unknown else FindingKind.STUCK,
        waiting=meeting.waiting,
        group=meeting.group,
        number=meeting.number,
        absent=dict.fromkeys(unknown, 0),
    )


def _mismatch(seen: Mapping[int, RankObservation], meeting: _Meeting) -> HangFinding | None:
    """The first collective that ranks wait in with different ideas of it."""
    groups = {rank: _of(seen, rank, meeting) for rank in meeting.members or sorted(seen)}
    same_life = {rank: group for rank, group in groups.items() if group and group.life == meeting.group.life}
    # one that ended on all ranks in spite of a difference is not what they wait for
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
                waiting=meeting.waiting,
                group=meeting.group,
                number=number,
                sides={_side(entries[ranks[0]]): tuple(ranks) for ranks in sides.values()},
            )
    return None


def _odd(sides: Sequence[list[int]]) -> tuple[int, ...]:
    """Those who differ from the largest side; all of them if there are several of its size."""
    largest, second = sorted((len(ranks) for ranks in sides), reverse=True)[:2]
    chosen = [ranks for ranks in sides if largest == second or len(ranks) < largest]
    return tuple(sorted(rank for ranks in chosen for rank in ranks))


def _identity(entry: RecordedOperation) -> tuple[str, str, int]:
    """Equal where ranks agree. Types and sizes are compared where they must be equal."""
    if entry.op not in EVEN:
        return entry.op, "", 0
    return entry.op, entry.what.partition("[")[0], entry.elements


def _side(entry: RecordedOperation) -> str:
    count = f" ({entry.elements} elements)" if len(entry.what) >= TEXT_CHARACTERS else ""
    return f"{entry.op} of {entry.what}{count}" if entry.what else entry.op


def _by_stacks(seen: Mapping[int, RankObservation], unfinished: AbstractSet[int]) -> HangFinding:
    """No recorder knows of anybody who waits."""
    asked = {rank: seen[rank] for rank in sorted(unfinished) if rank in seen}
    waiting = tuple(rank for rank, one in asked.items() if one.waits_in)
    silent = tuple(rank for rank, one in asked.items() if one.silent and not one.is_excused)
    others = tuple(rank for rank, one in asked.items() if rank not in waiting and (one.place.at or rank in silent))
    if waiting and others:
        return HangFinding(kind=FindingKind.ELSEWHERE, culprits=others, waiting=waiting)
    if silent and len(silent) < len(asked):
        return HangFinding(kind=FindingKind.SILENT, culprits=silent, waiting=waiting)
    return HangFinding(kind=FindingKind.UNKNOWN, waiting=waiting)
