"""Reports to be compared: each builder gives the usual, and takes what differs."""

from collections.abc import Iterable, Mapping
from typing import Any

from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult, judge_cases
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import Report, SuiteResult
from tests.support.builders.runs import a_report

STARTED = 1_795_226_400.0  # 2026-11-21 02:00 UTC
DAY_SECONDS = 86400


def a_case(case_id: str, outcome: Outcome = Outcome.PASSED, seconds: float = 1.0, **changes: Any) -> CaseResult:
    return CaseResult(id=case_id, outcome=outcome, seconds=seconds, **changes)


def a_suite(name: str, cases: Iterable[CaseResult]) -> SuiteResult:
    cases = tuple(cases)
    verdict, reason = judge_cases(cases)
    return SuiteResult(name=name, verdict=verdict, reason=reason, seconds=1.5, cases=cases)


def a_night(number: int, suites: Mapping[str, Iterable[CaseResult]], **changes: Any) -> Report:
    """Two nodes with eight ranks each, over NCCL; a day after the one before."""
    made = tuple(a_suite(name, cases) for name, cases in suites.items())
    verdict, reason = judge_cases(case for suite in made for case in suite.cases)
    usual: dict[str, Any] = {
        "name": f"night-{number}",
        "uid": f"u{number}",
        "series": "nightly-2x8",
        "backend": "nccl",
        "ranks_per_node": 8,
        "started": STARTED + number * DAY_SECONDS,
        "finished": STARTED + number * DAY_SECONDS + 700,
        "verdict": verdict,
        "reason": reason,
        "suites": made,
    }
    return a_report(**usual | changes)


def timed(seconds: Iterable[float], *, suites: int = 1) -> dict[str, list[CaseResult]]:
    """Good cases of these durations, dealt out to so many suites."""
    made: dict[str, list[CaseResult]] = {f"s{place}": [] for place in range(suites)}
    for number, one in enumerate(seconds):
        made[f"s{number % suites}"].append(a_case(f"t.py::test_{number}", seconds=one))
    return made


def measured(*measurements: Measurement) -> dict[str, list[CaseResult]]:
    return {"collectives": [a_case("b.py::test_bandwidth", measurements=measurements)]}
