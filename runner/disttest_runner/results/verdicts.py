"""The verdicts of suites and of the run, with what the quarantine and the thresholds add to them. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from disttest_contract import limits
from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.gang.quarantine import Matcher
from disttest_contract.gang.suites import MEASURING
from disttest_contract.outcomes import BAD, VERDICTS_WORST_FIRST, Counts, Outcome, Reason, Verdict
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult, SuiteResult, judge_cases
from disttest_contract.results.thresholds import Threshold, shortfalls, unmeasured
from disttest_contract.text import formatting
from disttest_contract.text.formatting import show_bytes
from disttest_runner.protocol.join_protocol import RunEnd

SHOWN = 5  # patterns named in a sentence
SHOWN_BYTES = 160  # of one pattern
SHOWN_SIZES = 8  # measured sizes named in a sentence
BAD_FOR = {
    Reason.CASES_HUNG: frozenset({Outcome.HUNG}),
    Reason.CASES_CRASHED: frozenset({Outcome.CRASHED}),
    Reason.CASES_FAILED: frozenset({Outcome.FAILED, Outcome.ERRORED}),
}
COMPLETE = frozenset({*BAD_FOR, Reason.ALL_CASES_PASSED, Reason.NO_CASES_PASSED})  # all other reasons: a broken suite


def finished(plan: SuitePlan, *, seconds: float, cases: tuple[CaseResult, ...], note: str = "") -> SuiteResult:
    """Return a suite that ran all its cases. A `note` on repetitions replaces advice on the quarantine."""
    verdict, reason = judge_cases(cases)
    parts = (f"{note}{describe(reason, cases)}", "" if note else quarantine_advice(plan.quarantine, cases))
    message = "; ".join(part for part in parts if part)
    return SuiteResult(name=plan.name, verdict=verdict, reason=reason, message=message, seconds=seconds, cases=cases)


def broken(name: str, reason: Reason, message: str, *, seconds: float, cases: tuple[CaseResult, ...]) -> SuiteResult:
    return SuiteResult(name=name, verdict=Verdict.ERRORED, reason=reason, message=message, seconds=seconds, cases=cases)


def unstarted(name: str, stop: RunEnd) -> SuiteResult:
    return SuiteResult(
        name=name, verdict=stop.verdict, reason=stop.reason, message=f"not started: {stop.message}", seconds=0, cases=()
    )


def describe(reason: Reason, cases: Sequence[CaseResult]) -> str:
    counts = Counts.of((case.outcome for case in cases), quarantined=sum(case.is_excused for case in cases))
    known = quarantine_note(counts.quarantined)
    match reason:
        case Reason.NO_CASES_PASSED:
            why = next((case.message for case in cases if case.message), "no reason was given")
            return f"none of {counts.total} cases passed{known}; the first was {cases[0].outcome.value}: {why}"
        case Reason.ALL_CASES_PASSED:
            flaky = [case.id for case in cases if case.is_flaky]
            note = f", {len(flaky)} of them only in a rerun, first {flaky[0]}" if flaky else ""
            return f"{counts[Outcome.PASSED]} of {counts.total} cases passed{note}{known}"
        case _:
            first = next(case for case in cases if case.is_red and case.outcome in BAD_FOR[reason])
            what = formatting.summary_line(first.message)
            return f"{counts.red} of {counts.total} cases failed{known}; first {first.id}: {what}"


def of_run(suites: Sequence[SuiteResult], stop: RunEnd | None) -> RunEnd:
    """Return the worst verdict: of a suite, or of `stop`, which ended the run early and is given the running case."""
    ends = [RunEnd(suite.verdict, suite.reason, f"{suite.name}: {suite.message}") for suite in suites]
    if stop is not None:
        running = [f"{suite.name}: {case.id}" for suite in suites for case in suite.cases if case.is_interrupted]
        named = f"; still running: {', '.join(running)}" if running else ""
        ends.insert(0, replace(stop, message=f"{stop.message}{named}"))
    if not ends:
        return RunEnd(Verdict.ERRORED, Reason.NO_CASES_COLLECTED, "the plan has no suites")
    worst = min(ends, key=lambda one: VERDICTS_WORST_FIRST.index(one.verdict))
    if worst.verdict is Verdict.PASSED:
        counts = Counts.sum(suite.counts for suite in suites)
        return RunEnd(
            worst.verdict,
            worst.reason,
            f"{counts[Outcome.PASSED]} of {counts.total} cases passed in "
            + formatting.counted(len(suites), "suite")
            + (f", {counts.flaky} of them only in a rerun" if counts.flaky else "")
            + quarantine_note(counts.quarantined),
        )
    return worst


def quarantine_note(quarantined: int) -> str:
    return f", {formatting.counted(quarantined, 'quarantined failure')}" if quarantined else ""


def quarantine_advice(patterns: Sequence[str], cases: Sequence[CaseResult]) -> str:
    """Name patterns that can be removed: they match no case, or all their cases passed at the first try."""
    matcher = Matcher(patterns)
    seen: dict[str, list[bool]] = {pattern: [] for pattern in patterns}  # whether each of its cases is well
    for case in cases:
        for pattern in matcher.which(case.id):
            seen[pattern].append(case.outcome is Outcome.PASSED and not case.is_flaky)
    idle = [pattern for pattern, found in seen.items() if not found]
    healed = [pattern for pattern, found in seen.items() if found and all(found)]
    parts = [
        f"warning: quarantine patterns that match no case: {_some(idle)}" if idle else "",
        f"quarantine patterns to remove, because their cases pass: {_some(healed)}" if healed else "",
    ]
    return "; ".join(part for part in parts if part)


def _some(patterns: Sequence[str]) -> str:
    return formatting.listed([limits.cut(pattern, SHOWN_BYTES) for pattern in patterns], SHOWN)


def judge_bandwidth(result: CaseResult, wanted: Sequence[Threshold]) -> CaseResult:
    """Fail a case that measured less than a threshold."""
    short = shortfalls(result.measurements, wanted)
    if not short or result.outcome in BAD:
        return result
    message = "\n".join(part for part in (*short, result.message) if part)
    return replace(result, outcome=Outcome.FAILED, message=message)


def threshold_suite(plan: RunPlan) -> int:
    """Return the index of the suite that gets the cases of thresholds without a measurement."""
    built_in = [place for place, suite in enumerate(plan.suites) if suite.builtin == MEASURING]
    own = [place for place, suite in enumerate(plan.suites) if not suite.builtin]
    return next(iter([*built_in, *own]), 0)


def with_unmeasured(plan: RunPlan, done: Sequence[SuiteResult]) -> SuiteResult:
    """Return the `threshold_suite` of ended suites, with a failed case for each threshold without a measurement."""
    suite, planned = done[threshold_suite(plan)], plan.suites[threshold_suite(plan)]
    measured = [one for each in done for case in each.cases for one in case.measurements]
    missing = unmeasured(measured, plan.thresholds)
    if not missing or suite.reason not in COMPLETE:
        return suite
    known = Matcher(planned.quarantine)
    cases = tuple(
        CaseResult(
            id=one.case_id,
            outcome=Outcome.FAILED,
            seconds=0.0,
            message=_unmeasured_message(one, planned.builtin, measured),
            quarantined=known.has(one.case_id),
        )
        for one in missing
    )
    return finished(planned, seconds=suite.seconds, cases=(*suite.cases, *cases))


def _unmeasured_message(wanted: Threshold, builtin: str, measured: Sequence[Measurement]) -> str:
    of_it = (one for one in measured if one.collective == wanted.collective)
    others = list(dict.fromkeys(f"{show_bytes(one.size_bytes)} {one.dtype}" for one in of_it))
    seen = (
        f" (measured: {', '.join(others[:SHOWN_SIZES])}{' …' if len(others) > SHOWN_SIZES else ''})" if others else ""
    )
    return f"no case measured {wanted.name}{seen}. {_advice(wanted, builtin)}"


def _advice(wanted: Threshold, builtin: str) -> str:
    if builtin != MEASURING:
        return "Record it with the fixture `measure`, run the suite `collectives`, or remove the threshold"
    size = show_bytes(wanted.size_bytes).replace(" ", "").removesuffix("B").removesuffix("i")
    dtype = f" and {wanted.dtype} to COLLECTIVES_DTYPES" if wanted.dtype else ""
    return (
        f"Add {size} to COLLECTIVES_SIZES{dtype} (env of the suite), or check whether its case was deselected, "
        "did not run or failed"
    )
