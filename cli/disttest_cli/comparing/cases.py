"""What became of each case."""

from collections.abc import Mapping

from disttest_cli.comparing.model import ABSENT, GOOD, UNKNOWN, CaseChange, CaseKey, Kind, Side, word
from disttest_contract.case_result import CaseResult
from disttest_contract.outcomes import WORST_FIRST, Outcome
from disttest_contract.report import Report

IDLE = frozenset({Outcome.SKIPPED, Outcome.NOT_RUN})


def side(report: Report) -> Side:
    """An id that comes twice is as bad as its worse half."""
    found: dict[CaseKey, CaseResult] = {}
    for suite in report.suites:
        for case in suite.cases:
            known = found.setdefault((suite.name, case.id), case)
            if _badness(case) < _badness(known):
                found[suite.name, case.id] = case
    return Side(report=report, cases=found)


def changes(a: Side, b: Side) -> tuple[dict[Kind, tuple[CaseChange, ...]], int]:
    """In the order of B, then of A; and how many cannot be told, for one report may have lost them."""
    found: dict[Kind, list[CaseChange]] = {kind: [] for kind in Kind}
    unknown = 0
    for key in _keys(a.cases, b.cases):
        before, after = a.cases.get(key), b.cases.get(key)
        kind = _kind(before, after)
        if (kind is Kind.ONLY_IN_A and b.is_cut) or (kind is Kind.ONLY_IN_B and a.is_cut):
            unknown += 1
        elif kind:
            if kind is Kind.ONLY_IN_A and b.is_broken_off and before and before.outcome not in IDLE:
                kind = Kind.NO_LONGER_RUN
            found[kind].append(_change(key, before, after, nothing=UNKNOWN if a.is_cut else ABSENT))
    return {kind: tuple(those) for kind, those in found.items()}, unknown


def _keys(a: Mapping[CaseKey, CaseResult], b: Mapping[CaseKey, CaseResult]) -> list[CaseKey]:
    return [*b, *(key for key in a if key not in b)]


def _kind(before: CaseResult | None, after: CaseResult | None) -> Kind | None:
    """First match wins."""
    if after is None:
        return Kind.ONLY_IN_A
    was_red, was_idle = bool(before and before.is_red), bool(before and before.outcome in IDLE)
    rules = (
        (after.is_red and was_red, Kind.STILL_FAILING),
        (after.is_red, Kind.NEWLY_FAILING),
        (before is None, Kind.ONLY_IN_B),
        (after.is_excused, None if before and before.is_excused else Kind.IN_QUARANTINE),
        (after.is_flaky, None if before and before.is_flaky else Kind.NEWLY_FLAKY),
        (after.outcome in IDLE and was_idle, None),
        (after.outcome is Outcome.NOT_RUN, Kind.NO_LONGER_RUN),
        (after.outcome is Outcome.SKIPPED, Kind.NEWLY_SKIPPED),
        (bool(before and before.is_flaky), Kind.NO_LONGER_FLAKY),
        (was_idle, Kind.NOW_RUN),
        (before is not None and before.outcome not in GOOD, Kind.NEWLY_PASSING),
    )
    return next((kind for matches, kind in rules if matches), None)


def _change(key: CaseKey, before: CaseResult | None, after: CaseResult | None, *, nothing: str) -> CaseChange:
    """What a flaky case said is what it said before it passed."""
    told = _told(after) if after and word(after) not in {one.value for one in GOOD} else _told(before)
    return CaseChange(
        suite=key[0],
        case=key[1],
        before=word(before) if before else nothing,
        after=word(after) if after else ABSENT,
        message=told[0],
        ranks=told[1],
        nodes=told[2],
    )


def _told(case: CaseResult | None) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    if case is None:
        return "", (), ()
    if case.is_flaky:
        first = case.earlier[0]
        return first.message, first.ranks, first.nodes
    return case.message, case.ranks, case.nodes


def _badness(case: CaseResult) -> tuple[int, int]:
    """The smaller, the worse."""
    return WORST_FIRST.index(case.outcome), 0 if case.is_red or case.is_flaky else 1
