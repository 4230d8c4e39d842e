"""Cases that somebody will want to read about: failed ones, flaky ones, those in quarantine. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from disttest_cli.formats.html.words import rank_list
from disttest_contract.case_result import CaseResult
from disttest_contract.outcomes import Outcome
from disttest_contract.report import Report

SHOWN = 400  # cases told in full
SHOWN_CHARACTERS = 12 << 20  # of all their texts
FEW = 100  # flaky ones, and those in quarantine
# As verdicts are judged: a hang says more about a night than a crash, that more than a failure.
ORDER = (Outcome.HUNG, Outcome.CRASHED, Outcome.ERRORED, Outcome.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
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
class Failures:
    interrupted: tuple[Told, ...]  # the case that was running when the run ended
    red: tuple[Told, ...]
    excused: tuple[Told, ...]
    flaky: tuple[Told, ...]
    left_out: int  # red ones that only the table of all cases has
    few_left_out: int  # flaky ones and those in quarantine
    blamed: tuple[tuple[str, int], ...]  # node, and in how many red cases it is named; most often first

    @property
    def places(self) -> Mapping[int, int]:
        """Of a case (by identity: ids may repeat) the number under which it is told."""
        return {id(told.case): told.number for told in (*self.interrupted, *self.red, *self.excused, *self.flaky)}


def failures(report: Report) -> Failures:
    every = [(suite.name, case) for suite in report.suites for case in suite.cases]
    red = sorted(report.failures, key=lambda pair: ORDER.index(pair[1].outcome))
    excused, flaky = report.excused, [(name, case) for name, case in every if case.is_flaky]
    told = tuple(_within(map(tell, range(1, SHOWN + 1), red[:SHOWN])))
    first = SHOWN + 1
    return Failures(
        interrupted=tuple(map(tell, range(first + 2 * FEW, first + 3 * FEW), report.interrupted)),
        red=told,
        excused=tuple(map(tell, range(first, first + FEW), excused[:FEW])),
        flaky=tuple(map(tell, range(first + FEW, first + 2 * FEW), flaky[:FEW])),
        left_out=len(red) - len(told),
        few_left_out=len(excused[FEW:]) + len(flaky[FEW:]),
        blamed=tuple(Counter(node for _, case in red for node in dict.fromkeys(case.nodes)).most_common()),
    )


def tell(number: int, pair: tuple[str, CaseResult]) -> Told:
    suite, case = pair
    diagnosis = case.diagnosis
    return Told(
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


def _within(told: Iterable[Told]) -> Iterator[Told]:
    """As many as a page can bear, the first one always."""
    room = SHOWN_CHARACTERS
    for number, one in enumerate(told):
        room -= one.characters
        if number and room < 0:
            return
        yield one
