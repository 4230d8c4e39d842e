"""What thresholds make of the cases of a run."""

import dataclasses
import json

import pytest

from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results import trimming
from disttest_contract.results.report import CaseResult, Report, SuiteResult
from disttest_contract.results.thresholds import Threshold
from disttest_runner.results import verdicts
from tests.support.builders.measured import GB, a_measured_case, a_measurement, a_threshold
from tests.unit.cli.formats.test_table import REPORT
from tests.unit.contract.gang.test_plan import PLAN

BUILT_IN = SuitePlan(name="fabric", builtin="collectives")
OWN = SuitePlan(name="mine", directory="/suites/mine")
OTHER = SuitePlan(name="other", builtin="data-parallel")
GOOD = CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=0.1)


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.XPASSED, Outcome.XFAILED, Outcome.SKIPPED])
def test_a_case_that_measured_too_little_has_failed_whatever_its_ranks_said(outcome: Outcome) -> None:
    case = a_measured_case(a_measurement(380 * GB), a_measurement(1, size_bytes=8), outcome=outcome)
    judged = verdicts.judge_bandwidth(case, (a_threshold(),))
    assert (judged.outcome, judged.measurements) == (Outcome.FAILED, case.measurements)
    assert judged.message == "all_reduce of 1 GiB float32: 380.0 GB/s bus bandwidth, below the threshold of 400.0 GB/s"


def test_a_case_that_ended_badly_keeps_its_own_end() -> None:
    case = a_measured_case(a_measurement(1), outcome=Outcome.CRASHED, message="SIGSEGV")
    assert verdicts.judge_bandwidth(case, (a_threshold(),)) is case


def test_a_case_that_measured_enough_or_nothing_stays_as_it_is() -> None:
    for case in (a_measured_case(a_measurement()), GOOD):
        assert verdicts.judge_bandwidth(case, (a_threshold(),)) is case


@pytest.mark.parametrize(
    ("suites", "place"),
    [((OTHER, OWN, BUILT_IN, BUILT_IN), 2), ((OTHER, OWN), 1), ((OTHER,), 0)],
    ids=["collectives", "own files", "none of these"],
)
def test_silence_is_noted_in_the_suite_that_should_have_measured(suites: tuple[SuitePlan, ...], place: int) -> None:
    assert verdicts.threshold_suite(a_plan(*suites)) == place


def a_plan(*suites: SuitePlan, wanted: tuple[Threshold, ...] = (a_threshold(),)) -> RunPlan:
    return dataclasses.replace(PLAN, suites=suites, thresholds=wanted)


def ended(plan: SuitePlan, *cases: CaseResult) -> SuiteResult:
    return verdicts.finished(plan, seconds=2.0, cases=cases)


def test_a_threshold_without_a_measurement_is_a_failed_case_in_the_last_place() -> None:
    small = a_measured_case(a_measurement(size_bytes=4096))
    plan = a_plan(BUILT_IN, OTHER, wanted=(a_threshold(), a_threshold(dtype="int64"), a_threshold(1, size_bytes=4096)))
    suite = verdicts.with_unmeasured(plan, [ended(BUILT_IN, small), ended(OTHER, GOOD)])
    assert (suite.name, suite.verdict, suite.reason) == ("fabric", Verdict.TESTS_FAILED, Reason.CASES_FAILED)
    assert suite.message.startswith("2 of 3 cases failed; first thresholds::all_reduce[1073741824]: no case measured")
    first, silent, typed = suite.cases
    assert first is small
    assert (silent.id, silent.outcome) == ("thresholds::all_reduce[1073741824]", Outcome.FAILED)
    assert silent.message == (
        "no case measured all_reduce of 1 GiB (measured: 4 KiB float32). Add 1G to "
        "COLLECTIVES_SIZES (env of the suite), or check whether its case was deselected, did not run or failed"
    )
    assert "Add 1G to COLLECTIVES_SIZES and int64 to COLLECTIVES_DTYPES (env" in typed.message


@pytest.mark.parametrize(("size_bytes", "text"), [(512 << 20, "512M"), (1 << 10, "1K"), (1000, "1000"), (3, "3")])
def test_the_size_is_spelt_as_the_variable_takes_it(size_bytes: int, text: str) -> None:
    plan = a_plan(BUILT_IN, wanted=(a_threshold(size_bytes=size_bytes),))
    assert (
        f"Add {text} to COLLECTIVES_SIZES" in verdicts.with_unmeasured(plan, [ended(BUILT_IN, GOOD)]).cases[1].message
    )


def test_what_any_suite_has_measured_counts() -> None:
    done = [ended(BUILT_IN, GOOD), ended(OWN, a_measured_case(a_measurement()))]
    assert verdicts.with_unmeasured(a_plan(BUILT_IN, OWN), done) is done[0]


def test_a_suite_whose_cases_did_not_fit_into_memory_fails_for_its_thresholds() -> None:
    """Without thresholds it is Errored, which says less."""
    too_large = dataclasses.replace(GOOD, outcome=Outcome.NOT_RUN, message="not run: needs 96.0 GiB")
    before = ended(BUILT_IN, too_large)
    assert before.reason is Reason.NO_CASES_PASSED
    after = verdicts.with_unmeasured(a_plan(BUILT_IN), [before])
    assert (after.verdict, len(after.cases)) == (Verdict.TESTS_FAILED, 2)


def test_a_suite_that_could_not_be_run_says_why_itself() -> None:
    done = [verdicts.broken("fabric", Reason.COLLECTION_FAILED, "COLLECTIVES_SIZES has", seconds=1, cases=())]
    assert verdicts.with_unmeasured(a_plan(BUILT_IN), done) is done[0]


def test_silence_can_be_put_into_quarantine_by_name() -> None:
    known = dataclasses.replace(BUILT_IN, quarantine=("thresholds::all_reduce[1073741824]",))
    suite = verdicts.with_unmeasured(a_plan(known), [ended(known, GOOD)])
    assert suite.cases[1].is_excused
    assert suite.verdict is Verdict.PASSED


def test_measurements_and_quarantine_outlive_the_shortening_of_a_report() -> None:
    """Without them the operator would come to another verdict than the leader."""
    case = a_measured_case(a_measurement(), message="m" * 4000, outcome=Outcome.FAILED, quarantined=True)
    report = dataclasses.replace(REPORT, suites=(dataclasses.replace(REPORT.suites[0], cases=(GOOD, case)),))
    shortest = trimming.Shortest(report.to_json()).with_cases(1)
    read = Report.loads(trimming.dumps({**shortest, "trimmed": "nearly all"}))
    (short,) = read.suites[0].cases
    assert (short.id, short.is_excused, short.measurements) == (case.id, True, case.measurements)
    assert read.counts == report.counts
    assert "measurements" not in json.dumps(GOOD.to_json())
