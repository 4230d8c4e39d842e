"""What of a report stands in the status of a run: counts, suites, the first failures."""

import math
from collections.abc import Mapping
from typing import Any

from disttest_contract import gist, limits
from disttest_contract.outcomes import BAD
from disttest_contract.report import CaseResult, Report
from disttest_operator.core import bandwidth, shown
from disttest_operator.core.evidence import Evidence

FAILURES = 20
RANKS = 64
NODES = 16
SUITE_MESSAGE_BYTES = 1024
SUITE_NAME_BYTES = 63
NODE_NAME_BYTES = 253


def results_of(report: Report, evidence: Evidence) -> dict[str, Any]:
    """Names of suites come from the spec: what a report calls them could be anything."""
    by_name = {suite.name: suite for suite in reversed(report.suites)}
    suites = [by_name[suite.name] for suite in evidence.test.spec.suites if suite.name in by_name]
    rows = bandwidth.rows(report, evidence.test.spec.thresholds)
    return {
        "cases": report.counts.to_json(),
        "suites": [
            {
                "name": suite.name,
                "verdict": suite.verdict.value,
                "reason": suite.reason.value,
                "message": shown.block(suite.message, SUITE_MESSAGE_BYTES),
                "seconds": finite(suite.seconds),
                "cases": suite.counts.to_json(),
            }
            for suite in suites
        ],
        "failures": _failures(report),
        **({"bandwidth": rows} if rows else {}),
    }


def _failures(report: Report) -> list[Mapping[str, Any]]:
    """The case that the end of the run interrupted, cases that failed, flaky ones, and those in quarantine."""
    flaky = [(suite.name, case) for suite in report.suites for case in suite.cases if case.is_flaky]
    told = [*report.interrupted, *report.failures, *flaky, *report.excused]
    return [_failure(report, suite, case) for suite, case in told[:FAILURES]]


def _failure(report: Report, suite: str, case: CaseResult) -> Mapping[str, Any]:
    told = next(one for one in case.earlier if one.outcome in BAD) if case.is_flaky else case
    said = told.message[: limits.MESSAGE_BYTES]
    message = "\n".join(gist.marked(said)) or said  # ranks and nodes stand beside it
    if case.is_flaky:
        message = f"{told.outcome.value} at first: {message}"
    failure = {
        "case": shown.case_id(case.id),
        "suite": shown.line(suite, SUITE_NAME_BYTES),
        "outcome": case.outcome.value,
        "ranks": [rank for rank in told.ranks if 0 <= rank < report.nodes * report.ranks_per_node][:RANKS],
        "nodes": [shown.line(node, NODE_NAME_BYTES) for node in told.nodes[:NODES]],
        "message": shown.block(message, limits.FAILURE_MESSAGE_BYTES),
        "seconds": finite(case.seconds),
    }
    marks = {"flaky": case.is_flaky, "quarantined": case.is_excused}
    return failure | {key: True for key, is_set in marks.items() if is_set}


def finite(seconds: float) -> float:
    """A report may say anything; JSON has no infinity."""
    return round(seconds, 3) if 0 <= seconds < math.inf else 0.0
