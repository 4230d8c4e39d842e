"""Cases that ranks ended differently, as a grid: a row each, a column for each rank or for ranks that are alike."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from disttest_cli.formats.html.texts import rank_list
from disttest_contract import limits
from disttest_contract.outcomes import WORST_FIRST as WORST_OUTCOMES
from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult, RankEnding
from disttest_contract.results.report import Report
from disttest_contract.text import formatting

ROWS = 60
SINGLE_COLUMNS = 32  # up to so many ranks have a column each
COLUMNS = 40  # of ranks that are alike
LABEL_BYTES = 18
UNTOLD = "untold"  # the report had no room for it
WORST_FIRST: tuple[str, ...] = (
    RankEnding.CRASHED,
    RankEnding.ERRORED,
    RankEnding.FAILED,
    RankEnding.UNFINISHED,
    UNTOLD,  # silence is no pass
    RankEnding.XPASSED,
    RankEnding.SKIPPED,
    RankEnding.XFAILED,
    RankEnding.PASSED,
    RankEnding.IDLE,
)
SIGNS: Mapping[str, str] = {
    RankEnding.CRASHED: "C",
    RankEnding.ERRORED: "E",
    RankEnding.FAILED: "F",
    RankEnding.UNFINISHED: "U",
    RankEnding.XPASSED: "x",
    RankEnding.SKIPPED: "s",
    RankEnding.XFAILED: "x",
    RankEnding.PASSED: "·",
    RankEnding.IDLE: "-",
    UNTOLD: "?",
}
MEANINGS: Mapping[str, str] = {
    RankEnding.CRASHED: "its process ended",
    RankEnding.ERRORED: "set-up or tear-down raised",
    RankEnding.FAILED: "failed",
    RankEnding.UNFINISHED: "had not ended when the others were stopped",
    RankEnding.XPASSED: "passed against expectation",
    RankEnding.SKIPPED: "skipped",
    RankEnding.XFAILED: "failed as expected",
    RankEnding.PASSED: "passed",
    RankEnding.IDLE: "has no part in the case",
    UNTOLD: "not told",
}
Endings = tuple[str, ...]  # of one rank, or of ranks that are alike, one for each row


@dataclass(frozen=True, slots=True, kw_only=True)
class RankColumn:
    label: str
    name: str  # in full
    node: str
    endings: Endings


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`spans` are (node, columns) above the ranks; empty where columns are not of one node each."""

    rows: tuple[tuple[str, CaseResult], ...]
    columns: tuple[RankColumn, ...]
    spans: tuple[tuple[str, int], ...]
    more_rows: int
    note: str
    legend: tuple[tuple[str, str, str], ...]  # ending, sign, meaning

    def cells(self, row: int) -> list[str]:
        return [column.endings[row] for column in self.columns]


def grid(report: Report) -> Grid | None:
    """None where all ranks agreed about everything."""
    cases = [(suite.name, case) for suite in report.suites for case in suite.cases if case.by_rank]
    cases.sort(key=lambda pair: (not pair[1].is_red, WORST_OUTCOMES.index(pair[1].outcome)))
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
        legend=tuple((ending, SIGNS[ending], MEANINGS[ending]) for ending in SIGNS if ending in seen),
    )


def by_rank(cases: Sequence[CaseResult], world: int) -> dict[int, Endings]:
    """How each rank ended each case."""
    found = {rank: [UNTOLD] * len(cases) for rank in range(world)}
    for row, case in enumerate(cases):
        for group in case.by_rank:
            for rank in group.ranks:
                if rank in found:
                    found[rank][row] = group.ending.value
    return {rank: tuple(endings) for rank, endings in found.items()}


def alike(endings: Mapping[int, Endings]) -> dict[Endings, list[int]]:
    """Ranks by how they ended, in the order of their first."""
    groups: dict[Endings, list[int]] = {}
    for rank, ending in endings.items():
        groups.setdefault(ending, []).append(rank)
    return groups


def worst(endings: Iterable[str]) -> str:
    seen = set(endings)
    return next((str(ending) for ending in WORST_FIRST if ending in seen), UNTOLD)


def _columns(endings: Mapping[int, Endings], report: Report) -> tuple[tuple[RankColumn, ...], str]:
    if len(endings) <= SINGLE_COLUMNS:
        return tuple(_column([rank], ending, report) for rank, ending in endings.items()), ""
    groups = alike(endings)
    if len(groups) <= COLUMNS:
        return tuple(_column(some, ending, report) for ending, some in groups.items()), (
            f"{len(endings)} ranks; those that ended all of these cases alike share a column."
        )
    whole_nodes = alike_nodes(endings, max(report.ranks_per_node, 1))
    shown = list(whole_nodes.items())[:COLUMNS]
    note = f"{len(endings)} ranks; a column is a node, or nodes that are alike, and tells the worst of its ranks."
    if left_out := len(whole_nodes) - len(shown):
        note += f" {left_out} more columns are left out."
    return tuple(_column(some, ending, report) for ending, some in shown), note


def alike_nodes(endings: Mapping[int, Endings], ranks_per_node: int) -> dict[Endings, list[int]]:
    """The same for whole nodes: of each the worst of its ranks."""
    nodes: dict[int, list[int]] = {}
    for rank in endings:
        nodes.setdefault(rank // ranks_per_node, []).append(rank)
    groups: dict[Endings, list[int]] = {}
    for some in nodes.values():
        together = tuple(worst(column) for column in zip(*(endings[rank] for rank in some), strict=True))
        groups.setdefault(together, []).extend(some)
    return groups


def _column(some: Sequence[int], endings: Endings, report: Report) -> RankColumn:
    nodes = {rank // max(report.ranks_per_node, 1) for rank in some}
    node = _node(min(nodes), report) if len(nodes) == 1 else ""
    shown = formatting.show_ranks(some)
    where = f" on {node}" if node else f" on {len(nodes)} nodes"
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
    """What the report says of it, as far as that can be."""
    said = max(0, report.nodes) * max(0, report.ranks_per_node)
    named = max((rank for _, case in rows for group in case.by_rank for rank in group.ranks), default=0) + 1
    return min(said or named, formatting.MOST)


SHOWN = 400  # cases told in full
SHOWN_CHARACTERS = 12 << 20  # of all their texts
FEW = 100  # flaky ones, and those in quarantine
# As verdicts are judged: a hang says more about a night than a crash, that more than a failure.
ORDER = (Outcome.HUNG, Outcome.CRASHED, Outcome.ERRORED, Outcome.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDetails:
    """A case in full. `number` names its place in the page. Texts are by the ranks that share them."""

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
    left_out: int  # red ones that only the table of all cases has
    few_left_out: int  # flaky ones and those in quarantine
    blamed: tuple[tuple[str, int], ...]  # node, and in how many red cases it is named; most often first

    @property
    def places(self) -> Mapping[int, int]:
        """Of a case (by identity: ids may repeat) the number under which it is told."""
        return {id(told.case): told.number for told in (*self.interrupted, *self.red, *self.excused, *self.flaky)}


def failures(report: Report) -> FailureSection:
    every = [(suite.name, case) for suite in report.suites for case in suite.cases]
    red = sorted(report.failures, key=lambda pair: ORDER.index(pair[1].outcome))
    excused, flaky = report.excused, [(name, case) for name, case in every if case.is_flaky]
    told = tuple(_within(map(tell, range(1, SHOWN + 1), red[:SHOWN])))
    first = SHOWN + 1
    return FailureSection(
        interrupted=tuple(map(tell, range(first + 2 * FEW, first + 3 * FEW), report.interrupted)),
        red=told,
        excused=tuple(map(tell, range(first, first + FEW), excused[:FEW])),
        flaky=tuple(map(tell, range(first + FEW, first + 2 * FEW), flaky[:FEW])),
        left_out=len(red) - len(told),
        few_left_out=len(excused[FEW:]) + len(flaky[FEW:]),
        blamed=tuple(Counter(node for _, case in red for node in dict.fromkeys(case.nodes)).most_common()),
    )


def tell(number: int, pair: tuple[str, CaseResult]) -> CaseDetails:
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
    """(ranks, text) of ranks that say the same; those to blame come first."""
    blamed = set(first)
    groups: dict[str, list[int]] = {}
    for rank, text in sorted(texts.items(), key=lambda item: (item[0] not in blamed, item[0])):
        groups.setdefault(text, []).append(rank)
    return tuple((rank_list(tuple(some)), text) for text, some in groups.items())


def _within(told: Iterable[CaseDetails]) -> Iterator[CaseDetails]:
    """As many as a page can bear, the first one always."""
    room = SHOWN_CHARACTERS
    for number, one in enumerate(told):
        room -= one.characters
        if number and room < 0:
            return
        yield one
