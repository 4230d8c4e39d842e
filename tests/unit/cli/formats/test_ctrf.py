"""CTRF: what becomes of each outcome, and what the specification demands of every document."""

import json
import time
from collections import Counter
from typing import Any

import jsonschema
import pytest

from disttest_cli.formats import ctrf
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import LeftOut, Report
from tests.support.reports import report_samples as samples
from tests.support.reports.report_cases import CRASHED, FLAKY, HUNG
from tests.support.reports.reports import a_good_night, a_night, a_report, a_suite
from tests.unit.cli.formats.conftest import Matches

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
OBJECT = {"type": "object"}
STRINGS = {"type": "array", "items": STRING}
STATUS = {"enum": ["passed", "failed", "skipped", "pending", "other"]}


def strict(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """What is not in the specification is refused, but in `extra`."""
    properties = {**required, **optional, "extra": OBJECT}
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}


COUNT = {"type": "integer", "minimum": 0}
ATTEMPT = strict(
    {"attempt": {"type": "integer", "minimum": 1}, "status": STATUS}, duration=COUNT, message=STRING, trace=STRING
)
TEST = strict(
    {"name": {"type": "string", "minLength": 1}, "status": STATUS, "duration": INTEGER},
    id={"type": "string", "format": "uuid"},
    start=INTEGER,
    stop=INTEGER,
    suite={"type": "array", "items": STRING, "minItems": 1},
    message=STRING,
    trace=STRING,
    rawStatus=STRING,
    filePath=STRING,
    retries=COUNT,
    retryAttempts={"type": "array", "items": ATTEMPT},
    flaky={"type": "boolean"},
)
SUMMARY = strict(
    dict.fromkeys(("tests", "passed", "failed", "skipped", "pending", "other", "start", "stop"), COUNT),
    flaky=COUNT,
    suites=COUNT,
    duration=INTEGER,
)
ENVIRONMENT = strict(
    {},
    reportName=STRING,
    appName=STRING,
    appVersion=STRING,
    testEnvironment=STRING,
    osRelease=STRING,
    healthy={"type": "boolean"},
)
SPECIFICATION = strict(
    {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "results": strict(
            {
                "tool": strict({"name": {"type": "string", "minLength": 1}}),
                "summary": SUMMARY,
                "tests": {"type": "array", "items": TEST},
            },
            environment=ENVIRONMENT,
        ),
    },
    reportId={"type": "string", "format": "uuid"},
    timestamp={"type": "string", "format": "date-time"},
    generatedBy=STRING,
)
CHECKER = jsonschema.Draft202012Validator(SPECIFICATION, format_checker=jsonschema.FormatChecker())
REPORTS = {
    "each": samples.each(),
    "lost": samples.lost(),
    "trimmed": samples.trimmed(),
    "nothing": samples.nothing(),
    "hostile": samples.hostile(),
    "night": a_night(),
    "good": a_good_night(),
    **{f"generated-{seed}": samples.generated(seed) for seed in range(12)},
}


def document(report: Report) -> dict[str, Any]:
    text = ctrf.render(samples.subject(report))
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    text.encode()
    return found


def by_name(report: Report) -> dict[str, Any]:
    return {test["name"]: test for test in document(report)["results"]["tests"]}


def test_a_report_with_every_outcome_reads_like_this(matches: Matches) -> None:
    matches(json.dumps(document(samples.each()), indent=2, ensure_ascii=False) + "\n", "each.ctrf.json")


def test_every_outcome_has_its_status() -> None:
    assert set(ctrf.STATUS) == set(Outcome)
    statuses = {
        test["rawStatus"]: test["status"]
        for test in by_name(samples.each()).values()
        if "quarantined" not in test.get("extra", {})
    }
    assert statuses == {
        "passed": "passed",
        "failed": "failed",
        "errored": "failed",
        "crashed": "failed",
        "hung": "failed",
        "skipped": "skipped",
        "notRun": "pending",
        "interrupted": "other",
        "xfailed": "other",
        "xpassed": "other",
    }


def test_a_known_failure_is_neither_failed_nor_passed() -> None:
    known = by_name(samples.each())["test_bucketing[fused-7]"]
    assert (known["status"], known["rawStatus"], known["extra"]["quarantined"]) == ("other", "failed", True)


def test_times_are_whole_milliseconds() -> None:
    report = samples.each()
    summary = document(report)["results"]["summary"]
    assert (summary["start"], summary["stop"]) == (round(report.started * 1000), round(report.finished * 1000))
    first = by_name(report)["test_passed[a::b]"]
    assert (first["start"], first["duration"]) == (round((report.started + 21) * 1000), 1250)
    assert first["stop"] - first["start"] == 1250


def test_who_and_why_is_said_of_a_crash() -> None:
    crash = by_name(samples.each())[CRASHED.id.rpartition("::")[2]]
    assert crash["message"] == "rank 13 on gpu-node-23 was killed by SIGSEGV"
    assert crash["extra"] == {"ranks": [13], "nodes": ["gpu-node-23"], "signal": "SIGSEGV"}
    assert "ranks 8-10: failed" in crash["trace"]
    assert "stacks of rank 9:" in by_name(samples.each())[HUNG.id.rpartition("::")[2]]["trace"]


def test_a_flaky_case_has_its_earlier_tries() -> None:
    flaky = by_name(samples.each())[FLAKY.id.rpartition("::")[2]]
    assert (flaky["status"], flaky["flaky"], flaky["retries"]) == ("passed", True, 1)
    [first] = flaky["retryAttempts"]
    assert (first["attempt"], first["status"], first["duration"]) == (1, "failed", 4900)
    assert document(samples.each())["results"]["summary"]["flaky"] == 1


def test_ids_are_the_same_in_every_run_and_differ_between_suites() -> None:
    one, other = a_suite("one", [samples.PASSED]), a_suite("other", [samples.PASSED])
    first = [test["id"] for test in document(a_report(one, other))["results"]["tests"]]
    again = [test["id"] for test in document(a_report(one, other, uid="another"))["results"]["tests"]]
    assert first == again
    assert len(set(first)) == 2


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.PASSED])
def test_a_run_that_is_not_green_never_looks_green(verdict: Verdict) -> None:
    for suites in ((), (a_suite("green", [samples.PASSED]),)):
        report = a_report(*suites, verdict=verdict, reason=Reason.TERMINATED, message="ended")
        assert document(report)["results"]["summary"]["failed"] == 1
        assert by_name(report)["run"]["message"] == f"{verdict.value} (Terminated): ended"


def test_cases_that_the_report_omits_have_an_entry() -> None:
    entry = by_name(samples.trimmed())["left out"]
    assert entry["status"] == "failed"
    assert "945 cases omitted because of the report's size limit: 900 passed, 40 failed, 5 hung" in entry["message"]
    assert by_name(samples.trimmed(LeftOut(by_outcome={Outcome.PASSED: 1})))["left out"]["status"] == "other"


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_every_document_is_as_the_specification_demands(report: Report) -> None:
    found = document(report)
    CHECKER.validate(found)
    results = found["results"]
    counted = Counter(test["status"] for test in results["tests"])
    summary = results["summary"]
    assert summary["tests"] == counted.total()
    assert {status: summary[status] for status in STATUS["enum"]} == {
        status: counted[status] for status in STATUS["enum"]
    }
    assert summary["stop"] >= summary["start"]
    for test in results["tests"]:
        assert test.get("retries", 0) == len(test.get("retryAttempts", ()))
        assert not test.get("flaky") or test["status"] == "passed"


def test_what_the_specification_does_not_know_is_refused() -> None:
    """Of the check itself."""
    found = document(samples.each())
    found["results"]["tests"][0]["bogus"] = 1
    with pytest.raises(jsonschema.ValidationError):
        CHECKER.validate(found)


def test_twenty_thousand_failures_are_no_trouble() -> None:
    start = time.process_time()
    text = ctrf.render(samples.subject(samples.failures(20_000)))
    assert time.process_time() - start < 20, "seconds; 2 are usual"
    assert len(text) < 30_000_000
