"""A suite in progress: what was collected, what came of it, what is worth another try. No I/O."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.plan import SuitePlan
from disttest_contract.quarantine import Matcher
from disttest_contract.report import CaseResult, Earlier
from disttest_runner.blame import needs_new_gang

# More cases than these that ended badly are no chance events: another try would cost time and teach nothing.
MAX_RERUN = 50


@dataclass(slots=True)
class SuiteRun:
    """`results` grows in the order of `ids`; a rerun replaces its entry."""

    plan: SuitePlan
    index: int  # of the suite in the plan
    started: float  # monotonic
    ids: tuple[str, ...] = ()
    digest: str = ""
    results: list[CaseResult] = field(default_factory=list)
    last: int | None = None  # place of the case that ran last
    needs_gang: bool = True  # the next case cannot run in this generation
    _outcomes: Counter[Outcome] = field(default_factory=Counter)
    _flaky: int = 0
    _excused: int = 0
    _known: Matcher = field(init=False)

    def __post_init__(self) -> None:
        self._known = Matcher(self.plan.quarantine)

    def record(self, number: int, result: CaseResult) -> None:
        """What a case came to, at its first or at another try."""
        self.last, self.needs_gang = number, needs_new_gang(result)
        result = self._marked(result)
        if number == len(self.results):
            self.results.append(result)
            self._count(result, 1)
        else:
            self._replace(number, again(self.results[number], result))

    def amend(self, result: CaseResult) -> None:
        """What was recorded last turned out to be otherwise."""
        if self.last is None:
            raise ValueError("no case has run yet")
        self._replace(self.last, self._marked(dataclasses.replace(result, earlier=self.results[self.last].earlier)))
        self.needs_gang = True

    def _marked(self, result: CaseResult) -> CaseResult:
        return dataclasses.replace(result, quarantined=True) if self._known.has(result.id) else result

    def _replace(self, number: int, result: CaseResult) -> None:
        self._count(self.results[number], -1)
        self.results[number] = result
        self._count(result, 1)

    def _count(self, result: CaseResult, change: int) -> None:
        self._outcomes[result.outcome] += change
        self._flaky += change * result.is_flaky
        self._excused += change * result.is_excused

    @property
    def counts(self) -> Counts:
        """Kept up to date, since it is asked for after every case."""
        by_outcome = {outcome: n for outcome, n in self._outcomes.items() if n}
        return Counts(by_outcome=by_outcome, flaky=self._flaky, quarantined=self._excused)

    def to_rerun(self) -> tuple[int, ...]:
        """Places of cases that ended badly, unless they are too many. Of those in quarantine it is known already."""
        bad = tuple(number for number, result in enumerate(self.results) if result.is_red)
        return bad if len(bad) <= MAX_RERUN else ()

    def unrun(self, message: str) -> list[CaseResult]:
        """Results for the cases that had no turn."""
        return [
            self._marked(CaseResult(id=case_id, outcome=Outcome.NOT_RUN, seconds=0.0, message=message))
            for case_id in self.ids[len(self.results) :]
        ]


def again(first: CaseResult, second: CaseResult) -> CaseResult:
    """One result of two tries: the second counts, unless it says nothing about the case."""
    if second.outcome in (Outcome.NOT_RUN, Outcome.SKIPPED):
        return first
    earlier = Earlier(
        outcome=first.outcome, seconds=first.seconds, message=first.message, ranks=first.ranks, nodes=first.nodes
    )
    return dataclasses.replace(second, earlier=(*first.earlier, earlier))
