"""Cases of a page: a grid of results by rank where ranks differ, and the failures with all details."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from disttest_cli.formats.values import PAGE_RANKS_BYTES, grouped, rank_list
from disttest_contract import limits
from disttest_contract.outcomes import WORST_FIRST, Outcome
from disttest_contract.results.case_result import CaseResult, RankEnding
from disttest_contract.results.report import Report
from disttest_contract.text import formatting

ROWS = 60
SINGLE_COLUMNS = 32  # number of ranks up to which each has a column
COLUMNS = 40  # of ranks with equal results
LABEL_BYTES = 18
NOT_REPORTED = "unknown"  # omitted from the report because of its size; also a CSS class
RESULTS: Mapping[str, tuple[str, str]] = {  # sign and meaning, the worst first
    RankEnding.CRASHED: ("C", "the process of the rank died"),
    RankEnding.ERRORED: ("E", "setup or teardown raised an exception"),
    RankEnding.FAILED: ("F", "failed"),
    RankEnding.UNFINISHED: ("U", "still running when the case ended"),
    NOT_REPORTED: ("?", "not in the report"),  # an unknown result is not good
    RankEnding.XPASSED: ("x", "passed, although the suite expects a failure"),
    RankEnding.SKIPPED: ("s", "skipped"),
    RankEnding.XFAILED: ("x", "failed, as the suite expects"),
    RankEnding.PASSED: ("·", "passed"),
    RankEnding.IDLE: ("-", "does not take part in the case"),
}
SIGNS = {ending: sign for ending, (sign, _) in RESULTS.items()}
Endings = tuple[str, ...]  # of a rank or of ranks with equal results, one for each row


@dataclass(frozen=True, slots=True, kw_only=True)
class RankColumn:
    label: str
    name: str  # not shortened
    node: str
    endings: Endings


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`spans` are (node, columns) above the ranks; empty if a column has several nodes."""

    rows: tuple[tuple[str, CaseResult], ...]
    columns: tuple[RankColumn, ...]
    spans: tuple[tuple[str, int], ...]
    more_rows: int
    note: str
    legend: tuple[tuple[str, str, str], ...]  # ending, sign, meaning

    def cells(self, row: int) -> list[str]:
        return [column.endings[row] for column in self.columns]


def grid(report: Report) -> Grid | None:
    """None if all cases have the same result on all ranks."""
    cases = [(suite.name, case) for suite in report.suites for case in suite.cases if case.by_rank]
    cases.sort(key=lambda pair: (not pair[1].is_red, WORST_FIRST.index(pair[1].outcome)))
    rows = cases[:ROWS]
    if not rows:
        return None
    endings = by_rank([case for _, case in rows], _world(report, rows))
    columns, note = _columns(endings, report)
    seen = {ending for column in columns for ending in column.endings}
    return Grid(
        rows=tuple(rows),
        columns=columns,
        spans=_spans(columns),
        more_rows=len(cases) - len(rows),
        note=note,
        legend=tuple((ending, *RESULTS[ending]) for ending in RESULTS if ending in seen),
    )


def by_rank(cases: Sequence[CaseResult], world: int) -> dict[int, Endings]:
    found = {rank: [NOT_REPORTED] * len(cases) for rank in range(world)}
    for row, case in enumerate(cases):
        for group in case.by_rank:
            for rank in group.ranks:
                if rank in found:
                    found[rank][row] = group.ending.value
    return {rank: tuple(endings) for rank, endings in found.items()}


def worst(endings: Iterable[str]) -> str:
    seen = set(endings)
    return next((str(ending) for ending in RESULTS if ending in seen), NOT_REPORTED)


def _columns(endings: Mapping[int, Endings], report: Report) -> tuple[tuple[RankColumn, ...], str]:
    if len(endings) <= SINGLE_COLUMNS:
        return tuple(_column([rank], ending, report) for rank, ending in endings.items()), ""
    groups = grouped(endings.items())
    if len(groups) <= COLUMNS:
        return tuple(_column(some, ending, report) for ending, some in groups.items()), (
            f"{len(endings)} ranks. Ranks with equal results share a column."
        )
    whole_nodes = alike_nodes(endings, max(report.ranks_per_node, 1))
    shown = list(whole_nodes.items())[:COLUMNS]
    note = f"{len(endings)} ranks. Each column shows the worst rank of a node, or of nodes with equal results."
    if left_out := len(whole_nodes) - len(shown):
        note += f" {formatting.counted(left_out, 'more column')} omitted."
    return tuple(_column(some, ending, report) for ending, some in shown), note


def alike_nodes(endings: Mapping[int, Endings], ranks_per_node: int) -> dict[Endings, list[int]]:
    nodes = grouped((rank, rank // ranks_per_node) for rank in endings)
    groups: dict[Endings, list[int]] = {}
    for some in nodes.values():
        together = tuple(worst(column) for column in zip(*(endings[rank] for rank in some), strict=True))
        groups.setdefault(together, []).extend(some)
    return groups


def _column(some: Sequence[int], endings: Endings, report: Report) -> RankColumn:
    nodes = {rank // max(report.ranks_per_node, 1) for rank in some}
    node = _node(min(nodes), report) if len(nodes) == 1 else ""
    shown = formatting.show_ranks(some)
    where = f" on {node}" if node else f" on {formatting.counted(len(nodes), 'node')}"
    name = f"rank{'s' if len(some) > 1 else ''} {shown}{where}"
    return RankColumn(label=limits.cut(shown, LABEL_BYTES), name=name, node=node, endings=endings)


def _node(index: int, report: Report) -> str:
    return report.node_names[index] if index < len(report.node_names) else f"node index {index}"


def _spans(columns: Sequence[RankColumn]) -> tuple[tuple[str, int], ...]:
    spans: list[tuple[str, int]] = []
    for column in columns:
        if spans and spans[-1][0] == column.node:
            spans[-1] = column.node, spans[-1][1] + 1
        else:
            spans.append((column.node, 1))
    return tuple(spans) if any(node for node, _ in spans) else ()


def _world(report: Report, rows: Iterable[tuple[str, CaseResult]]) -> int:
    """World size by the report, else by the ranks that cases name; limited, since reports can be forged."""
    reported = max(0, report.nodes) * max(0, report.ranks_per_node)
    named = max((rank for _, case in rows for group in case.by_rank for rank in group.ranks), default=0) + 1
    return min(reported or named, formatting.MAX_RANKS)


SHOWN = 400  # cases with details
SHOWN_CHARACTERS = 12 << 20  # of the texts of these cases
FEW = 100  # limit of flaky cases, and of those in quarantine
# Like verdicts: a hang is worse than a crash, and that worse than a failure.
ORDER = (Outcome.HUNG, Outcome.CRASHED, Outcome.ERRORED, Outcome.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDetails:
    """A case with all texts, which are (ranks, text). `number` is its anchor in the page."""

    number: int
    suite: str
    case: CaseResult
    states: tuple[tuple[str, str], ...] = ()
    stacks: tuple[tuple[str, str], ...] = ()
    native: tuple[tuple[str, str], ...] = ()
    logs: tuple[tuple[str, str], ...] = ()

    @property
    def characters(self) -> int:
        texts = [text for some in (self.states, self.stacks, self.native, self.logs) for _, text in some]
        more = [group.message for group in self.case.by_rank] + [one.message for one in self.case.earlier]
        ras = self.case.diagnosis.ras if self.case.diagnosis else ""
        return sum(map(len, [*texts, *more, self.case.message, ras]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSection:
    interrupted: tuple[CaseDetails, ...]  # the case that was running when the run ended
    red: tuple[CaseDetails, ...]
    excused: tuple[CaseDetails, ...]
    flaky: tuple[CaseDetails, ...]
    left_out: int  # failures that only the table of all cases contains
    few_left_out: int  # the same of flaky cases and those in quarantine
    blamed: tuple[tuple[str, int], ...]  # node and number of failures that name it, most first

    @property
    def places(self) -> Mapping[int, int]:
        """Anchors by identity of the case, since ids may repeat."""
        return {id(one.case): one.number for one in (*self.interrupted, *self.red, *self.excused, *self.flaky)}


def failures(report: Report) -> FailureSection:
    every = [(suite.name, case) for suite in report.suites for case in suite.cases]
    red = sorted(report.failures, key=lambda pair: ORDER.index(pair[1].outcome))
    excused, flaky = report.excused, [(name, case) for name, case in every if case.is_flaky]
    detailed = tuple(_within(map(describe, range(1, SHOWN + 1), red[:SHOWN])))
    first = SHOWN + 1
    return FailureSection(
        interrupted=tuple(map(describe, range(first + 2 * FEW, first + 3 * FEW), report.interrupted)),
        red=detailed,
        excused=tuple(map(describe, range(first, first + FEW), excused[:FEW])),
        flaky=tuple(map(describe, range(first + FEW, first + 2 * FEW), flaky[:FEW])),
        left_out=len(red) - len(detailed),
        few_left_out=len(excused[FEW:]) + len(flaky[FEW:]),
        blamed=tuple(Counter(node for _, case in red for node in dict.fromkeys(case.nodes)).most_common()),
    )


def describe(number: int, pair: tuple[str, CaseResult]) -> CaseDetails:
    suite, case = pair
    diagnosis = case.diagnosis
    return CaseDetails(
        number=number,
        suite=suite,
        case=case,
        states=shared(diagnosis.states, case.ranks) if diagnosis else (),
        stacks=shared(case.stacks, case.ranks),
        logs=shared(case.logs, case.ranks),
        native=shared(diagnosis.native, case.ranks) if diagnosis else (),
    )


def shared(texts: Mapping[int, str], first: Iterable[int] = ()) -> tuple[tuple[str, str], ...]:
    """Return (ranks, text) of ranks with equal texts; ranks at fault come first."""
    blamed = set(first)
    groups = grouped(sorted(texts.items(), key=lambda item: (item[0] not in blamed, item[0])))
    return tuple((rank_list(some, PAGE_RANKS_BYTES), text) for text, some in groups.items())


def _within(details: Iterable[CaseDetails]) -> Iterator[CaseDetails]:
    room = SHOWN_CHARACTERS
    for number, one in enumerate(details):
        room -= one.characters
        if number and room < 0:
            return
        yield one
