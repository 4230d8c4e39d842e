"""CTRF, the Common Test Report Format: docs/results/reports.md describes the mapping."""

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from disttest_cli.formats import case_text, test_status, values
from disttest_cli.formats.subject import Subject
from disttest_cli.formats.test_status import Notice
from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.results.case_result import CaseResult, Earlier
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.text import escaping
from disttest_contract.text.escaping import short_line

SPEC_VERSION = "1.0.0"  # as the examples of the specification have it; its text is a draft still
TOOL = "disttest"
SPACE = uuid.UUID("8d2ac7a1-6f4e-5d39-9b0e-4d6f9f1f6c55")  # of ids made from names; must never change
STATUSES = ("passed", "failed", "skipped", "pending", "other")
MOST = 32  # versions, settings and nodes
Json = dict[str, Any]

STATUS: dict[Outcome, str] = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.ERRORED: "failed",
    Outcome.CRASHED: "failed",
    Outcome.HUNG: "failed",
    Outcome.SKIPPED: "skipped",
    Outcome.NOT_RUN: "pending",  # it never started
    Outcome.XFAILED: "other",  # failed, as the suite expects
    Outcome.XPASSED: "other",  # passed, although the suite expects a failure
}
OTHER = "other"  # a failure in quarantine, or the run ended before the case did


def render(subject: Subject) -> str:
    return json.dumps(document(subject), ensure_ascii=False, separators=(",", ":")) + "\n"


def document(subject: Subject) -> Json:
    report = subject.report
    limit_bytes = case_text.body_limit(sum(suite.counts.bad for suite in report.suites) + len(report.interrupted))
    tests = [_test(report, suite, case, limit_bytes) for suite in report.suites for case in suite.cases]
    for suite in report.suites:
        notices = test_status.of_left_out(suite), test_status.of_suite(suite)
        tests += [_notice(report, notice, suite.name) for notice in notices if notice]
    if notice := test_status.of_run(report):
        tests.append(_notice(report, notice, TOOL))
    found: Json = {"reportFormat": "CTRF", "specVersion": SPEC_VERSION}
    found["reportId"] = _id("report", report.uid, str(report.attempt))
    if finished := values.moment(report.finished):
        found["timestamp"] = finished.strftime("%Y-%m-%dT%H:%M:%SZ")
    found["generatedBy"] = TOOL
    found["results"] = {
        "tool": {"name": TOOL},
        "summary": _summary(report, tests),
        "tests": tests,
        "environment": _environment(report),
    }
    return found


def _summary(report: Report, tests: Sequence[Json]) -> Json:
    counted = Counter(test["status"] for test in tests)
    start = values.milliseconds(report.started)
    stop = max(start, values.milliseconds(report.finished))
    return {
        "tests": len(tests),
        **{status: counted[status] for status in STATUSES},
        "flaky": sum(test.get("flaky", False) for test in tests),
        "suites": len(report.suites),
        "start": start,
        "stop": stop,
        "duration": stop - start,
        "extra": _filled(
            {
                "verdict": report.verdict.value,
                "reason": report.reason.value,
                "message": short_line(report.message),
                "quarantined": report.counts.quarantined,
                "trimmed": short_line(report.trimmed),
            }
        ),
    }


def _test(report: Report, suite: SuiteResult, case: CaseResult, limit_bytes: int) -> Json:
    known = case_text.split_id(case.id)
    status = OTHER if case.is_excused or case.is_interrupted else STATUS[case.outcome]
    test: Json = {
        "id": _id("case", suite.name, case.id),
        "name": known.name,
        "status": status,
        "duration": values.milliseconds(case.seconds),
        **_when(report, case),
        "suite": [part for part in (case_text.suite_name(suite.name), known.file, *known.classes) if part],
        "rawStatus": case.ending,
        "filePath": known.file,
    }
    if case.outcome is not Outcome.PASSED:
        test["message"] = case_text.case_title(case)
    if case.outcome in BAD or case.is_interrupted:
        test["trace"] = case_text.case_body(case, limit_bytes)
    if case.earlier:
        test |= _tries(case, limit_bytes)
    test["extra"] = _extra(case)
    return _filled(test, keep=frozenset({"name", "duration"}))


def _when(report: Report, case: CaseResult) -> Json:
    if case.at is None or not values.seconds(report.started):
        return {}
    start = values.milliseconds(report.started + values.seconds(case.at))
    return {"start": start, "stop": start + values.milliseconds(case.seconds)}


def _tries(case: CaseResult, limit_bytes: int) -> Json:
    tries = [_try(number, one, limit_bytes) for number, one in enumerate(case.earlier, start=1)]
    return {"retries": len(tries), "retryAttempts": tries, "flaky": case.is_flaky}


def _try(number: int, one: Earlier, limit_bytes: int) -> Json:
    return {
        "attempt": number,
        "status": STATUS[one.outcome],
        "duration": values.milliseconds(one.seconds),
        "message": case_text.title(one.message, one.outcome.value),
        "trace": escaping.short_block(case_text.earlier_body(number, one), limit_bytes),
    }


def _extra(case: CaseResult) -> Json:
    return _filled(
        {
            "ranks": list(case.ranks),
            "nodes": [short_line(node) for node in case.nodes],
            "signal": short_line(case.signal),
            "exitCode": case.exit_code if isinstance(case.exit_code, int) else None,
            "quarantined": case.quarantined,
            "measurements": len(case.measurements),
        },
        keep=frozenset({"exitCode"} if isinstance(case.exit_code, int) else ()),
    )


def _notice(report: Report, notice: Notice, suite: str) -> Json:
    verdict = notice.verdict.value
    return {
        "id": _id("notice", suite, notice.name),
        "name": notice.name,
        "status": "failed" if notice.is_bad else "other" if notice.name == test_status.LEFT_OUT else "passed",
        "duration": 0,
        "start": values.milliseconds(report.started),
        "stop": values.milliseconds(report.started),
        "suite": [case_text.suite_name(suite)],
        "message": test_status.sentence(notice),
        "rawStatus": verdict,
        "extra": {"reason": notice.reason.value},
    }


def _environment(report: Report) -> Json:
    kernels = sorted({short_line(facts.kernel) for facts in report.preflight if facts.kernel})
    gpus = sorted({short_line(gpu) for facts in report.preflight for gpu in facts.gpus})
    return _filled(
        {
            "reportName": short_line(f"{report.namespace}/{report.name}"),
            "appName": "torch",
            "appVersion": short_line(report.versions.get("torch", "")),
            "testEnvironment": short_line(report.series),
            "osRelease": ", ".join(kernels[:MOST]),
            "healthy": report.verdict is not Verdict.INFRA_FAILED,
            "extra": _filled(
                {
                    "uid": short_line(report.uid),
                    "attempt": report.attempt,
                    "backend": short_line(report.backend),
                    "nodes": report.nodes,
                    "ranksPerNode": report.ranks_per_node,
                    "nodeNames": [short_line(name) for name in report.node_names],
                    "gpus": gpus[:MOST],
                    **{
                        name: {short_line(key): short_line(value) for key, value in list(words.items())[:MOST]}
                        for name, words in (("versions", report.versions), ("settings", report.settings))
                    },
                }
            ),
        },
        keep=frozenset({"healthy"}),
    )


def _filled(values: Json, keep: frozenset[str] = frozenset()) -> Json:
    return {key: value for key, value in values.items() if value or key in keep}


def _id(*parts: str) -> str:
    """A UUID that depends on the names only, so that it is the same in every run."""
    return str(uuid.uuid5(SPACE, escaping.block("\n".join(parts))))
