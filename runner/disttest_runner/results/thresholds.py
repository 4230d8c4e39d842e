"""What thresholds make of cases: who measured too little has failed, and silence fails as a case of its own. Pure."""

import dataclasses
from collections.abc import Sequence

from disttest_contract.gang.plan import RunPlan
from disttest_contract.gang.quarantine import Matcher
from disttest_contract.gang.suites import MEASURING
from disttest_contract.outcomes import BAD, Outcome, Reason
from disttest_contract.results import thresholds
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult, SuiteResult
from disttest_contract.results.thresholds import Threshold
from disttest_contract.text.formatting import show_bytes
from disttest_runner.results import verdicts

SHOWN = 8  # other sizes, in a sentence
# A suite that ended otherwise was broken, and says so.
RAN_TO_ITS_END = frozenset(
    {
        Reason.ALL_CASES_PASSED,
        Reason.CASES_FAILED,
        Reason.CASES_CRASHED,
        Reason.CASES_HUNG,
        Reason.NOTHING_PASSED,
    }
)


def judged(result: CaseResult, wanted: Sequence[Threshold]) -> CaseResult:
    """What ranks said of a case is not all: what they measured must be enough."""
    short = thresholds.shortfalls(result.measurements, wanted)
    if not short or result.outcome in BAD:
        return result
    message = "\n".join(part for part in (*short, result.message) if part)
    return dataclasses.replace(result, outcome=Outcome.FAILED, message=message)


def home(plan: RunPlan) -> int:
    """The place of the suite that gets the cases of thresholds about which nothing was measured."""
    built_in = [place for place, suite in enumerate(plan.suites) if suite.builtin == MEASURING]
    own = [place for place, suite in enumerate(plan.suites) if not suite.builtin]
    return next(iter([*built_in, *own]), 0)


def completed(plan: RunPlan, done: Sequence[SuiteResult]) -> SuiteResult:
    """The suite at `home`, once all have ended: with a failed case for each threshold without a measurement."""
    suite, planned = done[home(plan)], plan.suites[home(plan)]
    measured = [one for each in done for case in each.cases for one in case.measurements]
    missing = thresholds.unmeasured(measured, plan.thresholds)
    if not missing or suite.reason not in RAN_TO_ITS_END:
        return suite
    known = Matcher(planned.quarantine)
    cases = tuple(
        CaseResult(
            id=one.case_id,
            outcome=Outcome.FAILED,
            seconds=0.0,
            message=_nothing(one, planned.builtin, measured),
            quarantined=known.has(one.case_id),
        )
        for one in missing
    )
    return verdicts.finished(planned, seconds=suite.seconds, cases=(*suite.cases, *cases))


def _nothing(wanted: Threshold, builtin: str, measured: Sequence[Measurement]) -> str:
    of_it = (one for one in measured if one.collective == wanted.collective)
    others = list(dict.fromkeys(f"{show_bytes(one.size_bytes)} {one.dtype}" for one in of_it))
    seen = f" (but of {', '.join(others[:SHOWN])}{' …' if len(others) > SHOWN else ''})" if others else ""
    return f"nothing was measured: no case has timed {wanted.name}{seen}; {_advice(wanted, builtin)}"


def _advice(wanted: Threshold, builtin: str) -> str:
    if builtin != MEASURING:
        return "record it with the fixture `measure`, run the suite `collectives`, or remove the threshold"
    size = show_bytes(wanted.size_bytes).replace(" ", "").removesuffix("B").removesuffix("i")
    dtype = f" and {wanted.dtype} in COLLECTIVES_DTYPES" if wanted.dtype else ""
    return (
        f"write {size} in COLLECTIVES_SIZES{dtype} (env of the suite), or see whether its case was left out, "
        "did not run or ended badly"
    )
