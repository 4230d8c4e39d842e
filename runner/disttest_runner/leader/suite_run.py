"""A suite in progress: its cases, their results, and which of them to run again. No I/O."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from disttest_contract.gang.plan import FOR_EVER, SuitePlan
from disttest_contract.gang.quarantine import Matcher
from disttest_contract.outcomes import BAD, Counts, Outcome
from disttest_contract.results.report import CaseResult, Earlier
from disttest_contract.text import formatting
from disttest_runner.cases.collection import KEPT_CASES, Repetition, turn_id
from disttest_runner.results.blame import needs_new_gang

MAX_RERUN = 50  # more failed cases are not flaky: running them again would only cost time


@dataclass(slots=True)
class SuiteRun:
    """`results` grows in the order of `ids`; a rerun replaces its entry."""

    plan: SuitePlan
    index: int  # of the suite in the plan
    started: float  # monotonic
    ids: tuple[str, ...] = ()
    digest: str = ""
    results: list[CaseResult] = field(default_factory=list)
    last: int | None = None  # place of the last case that ran
    needs_gang: bool = True  # the next case cannot run in this generation
    repetition: Repetition = field(default_factory=Repetition)
    dropped: int = 0  # results of the first repetitions, which all passed
    _is_ending: bool = False
    _outcomes: Counter[Outcome] = field(default_factory=Counter)
    _flaky: int = 0
    _excused: int = 0
    _known: Matcher = field(init=False)

    def __post_init__(self) -> None:
        self._known = Matcher(self.plan.quarantine)

    def turns(self) -> Iterator[int]:
        """Yield the number of the next turn of a case, after the one before has been recorded."""
        number = 0
        while self.repetition.goes_on_at(number, len(self.ids)) and not self._is_complete():
            yield number
            number += 1

    def _is_complete(self) -> bool:
        if self._is_ending or (self.repetition.until_fail and self.is_red):
            return True
        nothing_passed = self.has_run_all and not self._outcomes[Outcome.PASSED]
        return nothing_passed and self.repetition.times == FOR_EVER  # endless repetitions would never fail

    def end_repetitions(self) -> bool:
        """End endless repetitions; return whether that was possible, which means that each case has had a turn."""
        self._is_ending = self.repetition.times == FOR_EVER and self.has_run_all
        return self._is_ending

    @property
    def why_ended(self) -> str:
        """Return why cases of the last repetition have no turn."""
        if self._is_ending and not self.is_red:
            return "the run reached its time limit during this repetition"
        return "the run ended at the first failure"

    @property
    def is_red(self) -> bool:
        return sum(self._outcomes[outcome] for outcome in BAD) > self._excused

    @property
    def done(self) -> int:
        return self.dropped + len(self.results)

    @property
    def total(self) -> int:
        """Number of turns in total, up to the end of this repetition if they are endless."""
        times = self.repetition.times or self.done // max(1, len(self.ids)) + 1
        return len(self.ids) * times

    @property
    def has_run_all(self) -> bool:
        """Whether each case has had a turn."""
        return bool(self.ids) and self.done >= len(self.ids)

    def turn_id(self, number: int) -> str:
        repetition, place = divmod(number, len(self.ids))
        return turn_id(self.ids[place], repetition)

    def result(self, number: int) -> CaseResult:
        return self.results[number - self.dropped]

    def drop_passed(self, number: int) -> None:
        """Drop the results of whole repetitions that passed, before a turn, if there are KEPT_CASES."""
        if self.repetition.until_fail and number % len(self.ids) == 0 and len(self.results) >= KEPT_CASES:
            self.dropped += len(self.results)
            self.results.clear()

    def note(self) -> str:
        """Return a prefix for a sentence on the suite."""
        if self.repetition.is_plain or not self.ids:
            return ""
        cases = len(self.ids)
        times = -(-self.done // cases)
        note = f"in {formatting.counted(times, 'repetition')} of {formatting.counted(cases, 'case')}"
        left_out = f", of which the first {self.dropped // cases} passed and are omitted" if self.dropped else ""
        return f"{note}{left_out}: "

    def record(self, number: int, result: CaseResult) -> None:
        self.last, self.needs_gang = number, needs_new_gang(result)
        result = self._marked(number, result)
        if number == self.done:
            self.results.append(result)
            self._count(result, 1)
        else:
            self._replace(number, again(self.result(number), result))

    def amend(self, result: CaseResult) -> None:
        if self.last is None:
            raise ValueError("no case has run yet")
        self._replace(
            self.last, self._marked(self.last, dataclasses.replace(result, earlier=self.result(self.last).earlier))
        )
        self.needs_gang = True

    def _marked(self, number: int, result: CaseResult) -> CaseResult:
        """Mark a case that is in quarantine, in all repetitions."""
        case_id = result.id if self.repetition.is_plain else self.ids[number % len(self.ids)]
        return dataclasses.replace(result, quarantined=True) if self._known.has(case_id) else result

    def _replace(self, number: int, result: CaseResult) -> None:
        self._count(self.result(number), -1)
        self.results[number - self.dropped] = result
        self._count(result, 1)

    def _count(self, result: CaseResult, change: int) -> None:
        self._outcomes[result.outcome] += change
        self._flaky += change * result.is_flaky
        self._excused += change * result.is_excused

    @property
    def counts(self) -> Counts:
        """Counted incrementally, since it is read after every case."""
        by_outcome = {outcome: n for outcome, n in self._outcomes.items() if n}
        return Counts(by_outcome=by_outcome, flaky=self._flaky, quarantined=self._excused)

    def to_rerun(self) -> tuple[int, ...]:
        """Return the places of failed cases that are not in quarantine, none if they are too many.

        Repeated cases are not run again, so that each of their failures is reported.
        """
        if not self.repetition.is_plain:
            return ()
        bad = tuple(number for number, result in enumerate(self.results) if result.is_red)
        return bad if len(bad) <= MAX_RERUN else ()

    def unrun(self, message: str) -> list[CaseResult]:
        """Return results for the cases that had no turn in the current repetition."""
        cases = len(self.ids)
        end = max(cases, -(-self.done // cases) * cases) if cases else 0
        return [self._marked(number, self._not_run(number, message)) for number in range(self.done, end)]

    def _not_run(self, number: int, message: str) -> CaseResult:
        return CaseResult(id=self.turn_id(number), outcome=Outcome.NOT_RUN, seconds=0.0, message=message)


def again(first: CaseResult, second: CaseResult) -> CaseResult:
    """Merge the results of two tries: the second counts, unless the case was skipped or not run."""
    if second.outcome in (Outcome.NOT_RUN, Outcome.SKIPPED):
        return first
    earlier = Earlier(
        outcome=first.outcome, seconds=first.seconds, message=first.message, ranks=first.ranks, nodes=first.nodes
    )
    return dataclasses.replace(second, earlier=(*first.earlier, earlier))
