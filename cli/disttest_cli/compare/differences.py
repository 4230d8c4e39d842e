"""Compare two reports: outcomes of cases, environments, and warnings about data that cannot be compared."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from disttest_cli.compare import model, speed
from disttest_cli.formats import values
from disttest_contract.outcomes import WORST_FIRST, Outcome
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report
from disttest_contract.text import formatting

IDLE = frozenset({Outcome.SKIPPED, Outcome.NOT_RUN})


def side(report: Report) -> model.Side:
    """Index a report's cases; of cases with the same id the worst one counts."""
    found: dict[model.CaseKey, CaseResult] = {}
    for suite in report.suites:
        for case in suite.cases:
            known = found.setdefault((suite.name, case.id), case)
            if _badness(case) < _badness(known):
                found[suite.name, case.id] = case
    return model.Side(report=report, cases=found)


def case_changes(a: model.Side, b: model.Side) -> tuple[dict[model.ChangeKind, tuple[model.CaseChange, ...]], int]:
    """Return the changes in the order of B, then of A, and the number of cases that one report may have lost."""
    found: dict[model.ChangeKind, list[model.CaseChange]] = {kind: [] for kind in model.ChangeKind}
    unknown = 0
    for key in (*b.cases, *(key for key in a.cases if key not in b.cases)):
        before, after = a.cases.get(key), b.cases.get(key)
        kind = _kind(before, after)
        if (kind is model.ChangeKind.ONLY_IN_A and b.is_cut) or (kind is model.ChangeKind.ONLY_IN_B and a.is_cut):
            unknown += 1
        elif kind:
            if kind is model.ChangeKind.ONLY_IN_A and b.is_broken_off and before and before.outcome not in IDLE:
                kind = model.ChangeKind.NO_LONGER_RUN
            found[kind].append(_change(key, before, after, nothing=model.UNKNOWN if a.is_cut else model.ABSENT))
    return {kind: tuple(those) for kind, those in found.items()}, unknown


def _kind(before: CaseResult | None, after: CaseResult | None) -> model.ChangeKind | None:
    if after is None:
        return model.ChangeKind.ONLY_IN_A
    was_red, was_idle = bool(before and before.is_red), bool(before and before.outcome in IDLE)
    rules = (
        (after.is_red and was_red, model.ChangeKind.STILL_FAILING),
        (after.is_red, model.ChangeKind.NEWLY_FAILING),
        (before is None, model.ChangeKind.ONLY_IN_B),
        (after.is_excused, None if before and before.is_excused else model.ChangeKind.IN_QUARANTINE),
        (after.is_flaky, None if before and before.is_flaky else model.ChangeKind.NEWLY_FLAKY),
        (after.outcome in IDLE and was_idle, None),
        (after.outcome is Outcome.NOT_RUN, model.ChangeKind.NO_LONGER_RUN),
        (after.outcome is Outcome.SKIPPED, model.ChangeKind.NEWLY_SKIPPED),
        (bool(before and before.is_flaky), model.ChangeKind.NO_LONGER_FLAKY),
        (was_idle, model.ChangeKind.NOW_RUN),
        (before is not None and before.outcome not in model.GOOD, model.ChangeKind.NEWLY_PASSING),
    )
    return next((kind for matches, kind in rules if matches), None)


def _change(
    key: model.CaseKey, before: CaseResult | None, after: CaseResult | None, *, nothing: str
) -> model.CaseChange:
    """Take the message, ranks and nodes from the report in which the case ended worse."""
    is_worse_after = after and model.word(after) not in {one.value for one in model.GOOD}
    message, ranks, nodes = _failure(after if is_worse_after else before)
    return model.CaseChange(
        suite=key[0],
        case=key[1],
        before=model.word(before) if before else nothing,
        after=model.word(after) if after else model.ABSENT,
        message=message,
        ranks=ranks,
        nodes=nodes,
    )


def _failure(case: CaseResult | None) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """Message, ranks and nodes; of a flaky case those of its first try."""
    if case is None:
        return "", (), ()
    if case.is_flaky:
        first = case.earlier[0]
        return first.message, first.ranks, first.nodes
    return case.message, case.ranks, case.nodes


def _badness(case: CaseResult) -> tuple[int, int]:
    return WORST_FIRST.index(case.outcome), 0 if case.is_red or case.is_flaky else 1


NONE = "none"


def environment_differences(a: Report, b: Report) -> tuple[model.Difference, ...]:
    found = [
        *_gang(a, b),
        *_versions(a, b),
        *_settings(a, b),
        *(
            model.Difference(what=what, before=_counted(map(show, a.preflight)), after=_counted(map(show, b.preflight)))
            for what, show in values.NODE_FACTS.items()
        ),
    ]
    return tuple(one for one in found if one.before != one.after and one.before and one.after)


def _gang(a: Report, b: Report) -> Iterator[model.Difference]:
    yield model.Difference(what="backend", before=a.backend, after=b.backend)
    yield model.Difference(what="nodes", before=str(a.nodes), after=str(b.nodes))
    yield model.Difference(what="ranks per node", before=str(a.ranks_per_node), after=str(b.ranks_per_node))
    yield model.Difference(what="transport", before=values.network(a), after=values.network(b))
    names, others = set(a.node_names), set(b.node_names)
    if names and others and (names != others):
        yield model.Difference(
            what="node names", before=_names(names - others) or NONE, after=_names(others - names) or NONE
        )


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _versions(a: Report, b: Report) -> Iterator[model.Difference]:
    if a.versions and b.versions:
        for what in sorted(a.versions.keys() | b.versions.keys()):
            yield model.Difference(what=what, before=a.versions.get(what, NONE), after=b.versions.get(what, NONE))


def _settings(a: Report, b: Report) -> Iterator[model.Difference]:
    for what in sorted(a.settings.keys() | b.settings.keys()):
        yield model.Difference(what=what, before=a.settings.get(what, NONE), after=b.settings.get(what, NONE))


def _counted(shown: Iterable[str]) -> str:
    """The value that all nodes share, else each value with the number of its nodes."""
    counted = Counter(value for value in shown if value)
    if len(counted) <= 1:
        return next(iter(counted), "")
    return ", ".join(f"{value} ({formatting.counted(count, 'node')})" for value, count in sorted(counted.items()))


def compare(a: Report, b: Report, earlier: Sequence[Report] = ()) -> model.Comparison:
    """Compare A, the older report, with B. `earlier` are reports of the series that show how much its numbers vary."""
    before, after = side(a), side(b)
    changes, unknown = case_changes(before, after)
    is_alike = _world(a) == _world(b)
    known = [report for report in earlier if _world(report) == _world(b) and report.uid not in (a.uid, b.uid)]
    return model.Comparison(
        a=a,
        b=b,
        changes=changes,
        common=len(before.cases.keys() & after.cases.keys()),
        unknown=unknown,
        warnings=tuple(_warnings(before, after)),
        environment=environment_differences(a, b),
        durations=speed.compare(a, b, known) if is_alike else model.Durations(),
        speeds=speed.compare_bandwidths(a, b, known) if is_alike else (),
        earlier=len(known),
    )


def _world(report: Report) -> tuple[str, int, int]:
    return report.backend, report.nodes, report.ranks_per_node


def _warnings(before: model.Side, after: model.Side) -> Iterator[str]:
    a, b = before.report, after.report
    if (a.uid, a.attempt, a.started) == (b.uid, b.attempt, b.started):
        yield "A and B are the same report."
    elif a.started > b.started:
        yield "A started after B: exchange them, otherwise old results are shown as new."
    if _world(a) != _world(b):
        yield f"A ran on {_shown(a)}, B on {_shown(b)}: durations and bandwidths are not compared."
    for name, side in (("A", before), ("B", after)):
        report = side.report
        if side.is_cut:
            yield f"Report {name} was trimmed ({report.trimmed}): missing cases may have run."
        if side.is_broken_off:
            yield f"{name} was {report.verdict} ({report.reason}): cases that it did not reach have no result."
        if not side.cases:
            yield f"Report {name} has no cases."
    lost = speed.gone_bandwidths(a, b) if _world(a) == _world(b) and not after.is_cut else 0
    if lost:
        yield f"{formatting.counted(lost, 'bandwidth')} of A not measured in B."


def _shown(report: Report) -> str:
    return f"{formatting.gang_size(report.nodes, report.ranks_per_node)} with {report.backend}"
