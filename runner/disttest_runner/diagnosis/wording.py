"""Describes what a comparison found, in sentences for the report. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from disttest_contract.results.case_result import Diagnosis
from disttest_runner.diagnosis import comparison
from disttest_runner.diagnosis.comparison import FindingKind, HangFinding
from disttest_runner.diagnosis.flight_recorder import GroupTrace
from disttest_runner.diagnosis.observation import RankObservation

DESCRIBED = 4  # things, in a sentence
NAMED_RANKS = 16
PLURALS = {"is": "are", "has": "have"}

Name = Callable[[Iterable[int]], str]  # `rank 3 on node-b`


def sentence(finding: HangFinding, seen: Mapping[int, RankObservation], finished: Mapping[int, str], name: Name) -> str:
    """Describe what happened in one line; empty if nothing is known. `finished` has the outcomes of ended ranks."""
    waits = f"{brief(finding.waiting)} wait{'' if len(finding.waiting) > 1 else 's'}"
    match finding.kind:
        case FindingKind.ABSENT:
            text = f"{waits} in {_where(finding)}; {_absent(finding, name)}"
        case FindingKind.CYCLE:
            text = f"{name(finding.culprits)} wait for each other"
        case FindingKind.MISMATCH:
            return _mismatch(finding, name)
        case FindingKind.STUCK:
            joined = f"all ranks joined {_where(finding)}, but it does not finish on {brief(finding.waiting)}"
            return f"{joined}: the network or a GPU does not transfer data"
        case FindingKind.UNPROVEN:
            others = _doing(sorted(finding.absent), seen, {})
            return f"{waits} in {_where(finding)}; it is unknown whether all others joined it: {others}"
        case FindingKind.ELSEWHERE:
            be = "are" if len(finding.culprits) > 1 else "is"
            text = f"{waits} in {_by_stack(finding, seen)}; {name(finding.culprits)} {be} elsewhere"
        case FindingKind.SILENT:
            text = f"{name(finding.culprits)} did not answer"
        case FindingKind.UNKNOWN if finding.waiting:
            ended = f"; {brief(sorted(finished))} finished the case" if finished else ""
            return f"{waits} in {_by_stack(finding, seen)}{ended}"
        case FindingKind.UNKNOWN:
            return _doing([rank for rank in sorted(seen) if rank not in finished], seen, finished)
    doing = _doing(finding.culprits, seen, finished)
    return f"{text}: {doing}" if doing else text


def state(rank: int, seen: Mapping[int, RankObservation], finished: Mapping[int, str]) -> str:
    """Describe what a rank was doing in a few words; empty if nothing is known."""
    if rank in finished:
        return f"finished the case ({finished[rank]})"
    one = seen.get(rank)
    if one is None:
        return "was not observed: its agent did not answer"
    place = one.place
    at = f", at {place.at}" if place.at else ""
    if one.silent:
        return f"{one.silent}{at}"
    pending = _pending(one)
    if pending or place.waits_in:
        return f"waits in {pending or place.waits_in}{at}"
    return f"is at {place.at}" if place.at else ""


def brief(ranks: Iterable[int]) -> str:
    ranks = list(ranks)
    return f"rank{'s' if len(ranks) > 1 else ''} {shown(ranks, NAMED_RANKS)}"


def shown(things: Sequence[object], most: int) -> str:
    """`0, 1, 2 …`."""
    return ", ".join(map(str, things[:most])) + (" …" if len(things) > most else "")


def of_group(group: GroupTrace) -> str:
    if group.description == "default_pg":
        return "the default group"
    return f"group {group.name}" + (f" ({brief(group.members)})" if group.members else "")


def _pending(one: RankObservation) -> str:
    """Return the operation that a rank waits in, by its flight recorder."""
    groups = one.trace.groups if one.trace else ()
    for group in groups:
        if group.pending:
            return f"{group.pending.op} number {group.pending.number} of {of_group(group)}"
    return next((f"{g.pending_p2p.op} of {of_group(g)}" for g in groups if g.pending_p2p), "")


def _where(finding: HangFinding) -> str:
    """`all_reduce number 5 of the default group`."""
    if finding.group is None:
        return "a collective"
    entry = finding.group.entry(finding.number)
    return f"{entry.op if entry else 'collective'} number {finding.number} of {of_group(finding.group)}"


def _absent(finding: HangFinding, name: Name) -> str:
    ranks = sorted(finding.absent)
    several = len(ranks) > 1
    lasts = sorted(set(finding.absent.values()))
    if lasts == [0]:
        note = ""
    elif len(lasts) == 1:
        note = f" ({'their' if several else 'its'} last was number {lasts[0]})"
    else:
        note = f" (their last were numbers {lasts[0]} to {lasts[-1]})"
    return f"{name(ranks)} {'have' if several else 'has'} not joined it{note}"


def _mismatch(finding: HangFinding, name: Name) -> str:
    sides = [f"{what} on {name(ranks)}" for what, ranks in finding.sides.items()]
    more = " …" if len(sides) > DESCRIBED else ""
    group = of_group(finding.group) if finding.group else "a group"
    return f"ranks disagree about collective number {finding.number} of {group}: {'; '.join(sides[:DESCRIBED])}{more}"


def _doing(ranks: Iterable[int], seen: Mapping[int, RankObservation], finished: Mapping[int, str]) -> str:
    """Describe each rank, like `rank 1 is at wait_for_ever (test_it.py:40)`, those that do the same together."""
    same: dict[str, list[int]] = {}
    for rank in ranks:
        words = state(rank, seen, finished)
        if words:
            same.setdefault(words, []).append(rank)
    parts = [f"{brief(who)} {_plural(words) if len(who) > 1 else words}" for words, who in same.items()]
    return shown(parts, DESCRIBED)


def _plural(words: str) -> str:
    """Return `are at …` for `is at …`: every text of `state` begins with a verb."""
    verb, _, rest = words.partition(" ")
    return f"{PLURALS.get(verb, verb.removesuffix('s'))} {rest}"


def _by_stack(finding: HangFinding, seen: Mapping[int, RankObservation]) -> str:
    """Return what ranks wait in by their Python stacks, where recorders show nothing."""
    functions = dict.fromkeys(seen[rank].waits_in for rank in finding.waiting if rank in seen)
    return " or ".join(list(functions)[:DESCRIBED])


MAX_STATES = 64  # of one case in the report


def diagnose(
    seen: Mapping[int, RankObservation], *, unfinished: tuple[int, ...], finished: Mapping[int, str], name: Name
) -> tuple[tuple[int, ...], Diagnosis]:
    """Return the culprits, none without proof, and the diagnosis. `finished` lacks ranks with no part in the case."""
    finding = comparison.compare(seen, unfinished=frozenset(unfinished), ranks=(*unfinished, *finished))
    described = dict.fromkeys([*finding.culprits, *unfinished])
    states = {rank: words for rank in list(described)[:MAX_STATES] if (words := state(rank, seen, finished))}
    return finding.culprits, Diagnosis(summary=sentence(finding, seen, finished, name), states=states)
