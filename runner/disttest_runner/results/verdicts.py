"""What suites and the run come to. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from disttest_contract import limits
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.gang.quarantine import Matcher
from disttest_contract.outcomes import VERDICTS_WORST_FIRST, Counts, Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, SuiteResult, judge_cases
from disttest_contract.text import formatting
from disttest_runner.protocol.join_protocol import RunEnd

SHOWN = 5
SHOWN_BYTES = 160  # of one pattern


def quarantine_note(quarantined: int) -> str:
    """To be put behind a number of cases."""
    return f", {quarantined} quarantined failure{'s' if quarantined > 1 else ''}" if quarantined else ""


def quarantine_advice(patterns: Sequence[str], cases: Sequence[CaseResult]) -> str:
    """Silence would let a list grow for ever. A pattern of which one case still fails, or did not run, stays."""
    matcher = Matcher(patterns)
    seen: dict[str, list[CaseResult]] = {pattern: [] for pattern in patterns}
    for case in cases:
        for pattern in matcher.which(case.id):
            seen[pattern].append(case)
    idle = [pattern for pattern, found in seen.items() if not found]
    healed = [pattern for pattern, found in seen.items() if found and all(map(_is_well, found))]
    parts = [
        f"warning: in quarantine, but no case of this suite: {_names(idle)}" if idle else "",
        f"passes again, take it off the quarantine list: {_names(healed)}" if healed else "",
    ]
    return "; ".join(part for part in parts if part)


def _is_well(case: CaseResult) -> bool:
    return case.outcome is Outcome.PASSED and not case.is_flaky


def _names(patterns: Sequence[str]) -> str:
    more = f" and {len(patterns) - SHOWN} more" if len(patterns) > SHOWN else ""
    return ", ".join(limits.cut(pattern, SHOWN_BYTES) for pattern in patterns[:SHOWN]) + more


def finished(plan: SuitePlan, *, seconds: float, cases: tuple[CaseResult, ...], note: str = "") -> SuiteResult:
    """A suite whose cases all had their turn. `note` is on their repetitions: of these the list cannot tell."""
    verdict, reason = judge_cases(cases)
    parts = (f"{note}{describe(reason, cases)}", "" if note else quarantine_advice(plan.quarantine, cases))
    message = "; ".join(part for part in parts if part)
    return SuiteResult(name=plan.name, verdict=verdict, reason=reason, message=message, seconds=seconds, cases=cases)


def broken(name: str, reason: Reason, message: str, *, seconds: float, cases: tuple[CaseResult, ...]) -> SuiteResult:
    """A suite that could not be run, or not to its end."""
    return SuiteResult(name=name, verdict=Verdict.ERRORED, reason=reason, message=message, seconds=seconds, cases=cases)


def unstarted(name: str, stop: RunEnd) -> SuiteResult:
    return SuiteResult(
        name=name, verdict=stop.verdict, reason=stop.reason, message=f"not started: {stop.message}", seconds=0.0
    )


def describe(reason: Reason, cases: Sequence[CaseResult]) -> str:
    """One sentence on a suite that ran to its end."""
    counts = Counts.of((case.outcome for case in cases), quarantined=sum(case.is_excused for case in cases))
    known = quarantine_note(counts.quarantined)
    match reason:
        case Reason.NOTHING_PASSED:
            why = next((case.message for case in cases if case.message), "no reason was given")
            return f"none of {counts.total} cases passed{known}; the first was {cases[0].outcome.value}: {why}"
        case Reason.ALL_CASES_PASSED:
            flaky = [case.id for case in cases if case.is_flaky]
            note = f", {len(flaky)} of them at another try only, first {flaky[0]}" if flaky else ""
            return f"{counts[Outcome.PASSED]} of {counts.total} cases passed{note}{known}"
        case _:
            first = next(case for case in cases if case.is_red and case.outcome in _BAD_FOR[reason])
            red = counts.bad - counts.quarantined
            what = formatting.who_and_what(first.message)
            return f"{red} of {counts.total} cases ended badly{known}; first {first.id}: {what}"


_BAD_FOR = {
    Reason.CASES_HUNG: frozenset({Outcome.HUNG}),
    Reason.CASES_CRASHED: frozenset({Outcome.CRASHED}),
    Reason.CASES_FAILED: frozenset({Outcome.FAILED, Outcome.ERRORED}),
}


def of_run(suites: Sequence[SuiteResult], stop: RunEnd | None) -> RunEnd:
    """The worst suite speaks for the run, unless something ended it early and worse: that names the case in flight."""
    said = [RunEnd(suite.verdict, suite.reason, f"{suite.name}: {suite.message}") for suite in suites]
    if stop is not None:
        running = [f"{suite.name}: {case.id}" for suite in suites for case in suite.cases if case.is_interrupted]
        named = f"; still running: {', '.join(running)}" if running else ""
        said.insert(0, replace(stop, message=f"{stop.message}{named}"))
    if not said:
        return RunEnd(Verdict.ERRORED, Reason.NOTHING_COLLECTED, "the plan names no suite")
    worst = min(said, key=lambda one: VERDICTS_WORST_FIRST.index(one.verdict))
    if worst.verdict is Verdict.PASSED:
        counts = Counts.sum(suite.counts for suite in suites)
        return RunEnd(
            worst.verdict,
            worst.reason,
            f"{counts[Outcome.PASSED]} of {counts.total} cases passed in {len(suites)} suites"
            + (f", {counts.flaky} of them at another try only" if counts.flaky else "")
            + quarantine_note(counts.quarantined),
        )
    return worst
