"""Cases and reports of nights, and ledgers as the API server holds them."""

from collections.abc import Mapping
from typing import Any

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult, Report, SuiteResult
from tests.support.builders.runs import a_report_of


def a_case(case_id: str, *, good: bool = True, measurements: tuple[Measurement, ...] = ()) -> CaseResult:
    outcome = Outcome.PASSED if good else Outcome.FAILED
    return CaseResult(id=case_id, outcome=outcome, seconds=0.5, measurements=measurements)


def a_night(number: int, suites: tuple[str, ...]) -> Report:
    """Every suite has 40 cases; one of them fails every seventh night, another of the first suite every fifth."""
    made = []
    for index, suite in enumerate(suites):
        bad = {0} if number % 7 == 3 else set()
        bad |= {1} if number % 5 == 2 and index == 0 else set()
        cases = tuple(a_case(f"{suite}.py::test_{case}", good=case not in bad) for case in range(40))
        verdict, reason = (Verdict.TESTS_FAILED, Reason.CASES_FAILED) if bad else PASSED
        made.append(SuiteResult(name=suite, verdict=verdict, reason=reason, seconds=12.5, cases=cases))
    return a_report_of(suites=tuple(made))


PASSED = (Verdict.PASSED, Reason.ALL_CASES_PASSED)


def ledger_body(name: str, status: Mapping[str, Any], *, version: int, namespace: str = "gpu-ci") -> dict[str, Any]:
    """A DistTestSeries."""
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTestSeries", "metadata": meta, "status": dict(status)}
