"""A suite in progress: what was collected, what came of it, what is worth another try. No I/O."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from disttest_contract.gang.plan import FOR_EVER, SuitePlan
from disttest_contract.gang.quarantine import Matcher
from disttest_contract.outcomes import BAD, Counts, Outcome
from disttest_contract.results.report import CaseResult, Earlier
from disttest_runner.cases.collection import KEPT_CASES, Repetition, turn_id
from disttest_runner.results.blame import needs_new_gang

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
    repetition: Repetition = field(default_factory=Repetition)
    let_go: int = 0  # results of the first repetitions, which were all well, that are kept no longer
    _is_enough: bool = False
    _outcomes: Counter[Outcome] = field(default_factory=Counter)
    _flaky: int = 0
    _excused: int = 0
    _known: Matcher = field(init=False)

    def __post_init__(self) -> None:
        self._known = Matcher(self.plan.quarantine)

    def turns(self) -> Iterator[int]:
        """Numbers of the turns that cases have, each after the one before has been recorded."""
        number = 0
        while self.repetition.goes_on_at(number, len(self.ids)) and not self._has_enough():
            yield number
            number += 1

    def _has_enough(self) -> bool:
        if self._is_enough or (self.repetition.until_fail and self.is_red):
            return True
        nothing_passed = self.has_been_through and not self._outcomes[Outcome.PASSED]
        return nothing_passed and self.repetition.times == FOR_EVER  # where nothing runs nothing can fail

    def let_be_enough(self) -> bool:
        """No more repetitions, where they go on for ever; returns whether each case has had a turn."""
        self._is_enough = self.repetition.times == FOR_EVER and self.has_been_through
        return self._is_enough

    @property
    def is_red(self) -> bool:
        return sum(self._outcomes[outcome] for outcome in BAD) > self._excused

    @property
    def done(self) -> int:
        """Turns that have come to something."""
        return self.let_go + len(self.results)

    @property
    def total(self) -> int:
        """Turns up to the end; where none is in sight, to that of this repetition."""
        times = self.repetition.times or self.done // max(1, len(self.ids)) + 1
        return len(self.ids) * times

    @property
    def has_been_through(self) -> bool:
        """Whether each case has had a turn."""
        return bool(self.ids) and self.done >= len(self.ids)

    def turn_id(self, number: int) -> str:
        repetition, place = divmod(number, len(self.ids))
        return turn_id(self.ids[place], repetition)

    def result(self, number: int) -> CaseResult:
        return self.results[number - self.let_go]

    def let_go_of_good(self, number: int) -> None:
        """Before a turn: up to the first failure only so many results are kept, whole repetitions of them."""
        if self.repetition.until_fail and number % len(self.ids) == 0 and len(self.results) >= KEPT_CASES:
            self.let_go += len(self.results)
            self.results.clear()

    def note(self) -> str:
        """To be put before a sentence on the suite."""
        if self.repetition.is_plain or not self.ids:
            return ""
        cases = len(self.ids)
        times = -(-self.done // cases)
        note = f"in {times} repetition{'' if times == 1 else 's'} of {cases} case{'' if cases == 1 else 's'}"
        left_out = f", of which the first {self.let_go // cases} were well and are left out" if self.let_go else ""
        return f"{note}{left_out}: "

    def record(self, number: int, result: CaseResult) -> None:
        """What a case came to, at its first or at another try."""
        self.last, self.needs_gang = number, needs_new_gang(result)
        result = self._marked(number, result)
        if number == self.done:
            self.results.append(result)
            self._count(result, 1)
        else:
            self._replace(number, again(self.result(number), result))

    def amend(self, result: CaseResult) -> None:
        """What was recorded last turned out to be otherwise."""
        if self.last is None:
            raise ValueError("no case has run yet")
        self._replace(
            self.last, self._marked(self.last, dataclasses.replace(result, earlier=self.result(self.last).earlier))
        )
        self.needs_gang = True

    def _marked(self, number: int, result: CaseResult) -> CaseResult:
        """Who is in quarantine is there in all repetitions."""
        case_id = result.id if self.repetition.is_plain else self.ids[number % len(self.ids)]
        return dataclasses.replace(result, quarantined=True) if self._known.has(case_id) else result

    def _replace(self, number: int, result: CaseResult) -> None:
        self._count(self.result(number), -1)
        self.results[number - self.let_go] = result
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
        """Places of cases that ended badly, unless they are too many. Of those in quarantine it is known already.

        Who repeats cases wants to see each of their failures.
        """
        if not self.repetition.is_plain:
            return ()
        bad = tuple(number for number, result in enumerate(self.results) if result.is_red)
        return bad if len(bad) <= MAX_RERUN else ()

    def unrun(self, message: str) -> list[CaseResult]:
        """Results for the cases that had no turn, in the repetition that was begun."""
        cases = len(self.ids)
        end = max(cases, -(-self.done // cases) * cases) if cases else 0
        return [self._marked(number, self._not_run(number, message)) for number in range(self.done, end)]

    def _not_run(self, number: int, message: str) -> CaseResult:
        return CaseResult(id=self.turn_id(number), outcome=Outcome.NOT_RUN, seconds=0.0, message=message)


def again(first: CaseResult, second: CaseResult) -> CaseResult:
    """One result of two tries: the second counts, unless it says nothing about the case."""
    if second.outcome in (Outcome.NOT_RUN, Outcome.SKIPPED):
        return first
    earlier = Earlier(
        outcome=first.outcome, seconds=first.seconds, message=first.message, ranks=first.ranks, nodes=first.nodes
    )
    return dataclasses.replace(second, earlier=(*first.earlier, earlier))
