"""JUnit: what becomes of each outcome, that nothing red looks green, and that other readers can read it."""

import time
from collections import Counter
from xml.etree import ElementTree as ET

import junitparser
import pytest
from junitparser import xunit2

from disttest_cli.formats import junit
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from tests.support.reports import report_samples as samples
from tests.support.reports.report_cases import FAILED, FLAKY, HUNG
from tests.support.reports.reports import a_good_night, a_night, a_report, a_suite
from tests.unit.cli.formats.conftest import Matches

RESULTS = {"failure", "error", "skipped"}
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


def rendered(report: Report) -> ET.Element:
    return ET.fromstring(junit.render(samples.subject(report)))  # noqa: S314  # our own


def cases(report: Report) -> dict[str, ET.Element]:
    return {case.get("name", ""): case for case in rendered(report).iter("testcase")}


def result(case: ET.Element) -> str:
    found = [part.tag for part in case if part.tag in RESULTS]
    assert len(found) <= 1
    return found[0] if found else "passed"


def test_a_report_with_every_outcome_reads_like_this(matches: Matches) -> None:
    matches(junit.render(samples.subject(samples.each())), "each.xml")


def test_a_run_without_cases_reads_like_this(matches: Matches) -> None:
    matches(junit.render(samples.subject(samples.lost())), "lost.xml")


def test_every_outcome_has_its_result() -> None:
    found = cases(samples.each())
    expected = {
        Outcome.PASSED: "passed",
        Outcome.XPASSED: "passed",
        Outcome.FAILED: "failure",
        Outcome.ERRORED: "error",
        Outcome.CRASHED: "error",
        Outcome.HUNG: "error",
        Outcome.SKIPPED: "skipped",
        Outcome.XFAILED: "skipped",
        Outcome.NOT_RUN: "skipped",
    }
    assert set(expected) == set(Outcome)
    for case in samples.EACH:
        wanted = "error" if case.is_interrupted else "skipped" if case.quarantined else expected[case.outcome]
        name = case.id.partition("[")[0].rpartition("::")[2]
        [entry] = [entry for known, entry in found.items() if known.partition("[")[0] == name]
        assert result(entry) == wanted, case.id


def test_a_name_keeps_its_parameters_and_its_class_is_below_the_suite() -> None:
    entry = cases(samples.each())["test_passed[a::b]"]
    assert entry.get("classname") == "things.test.distributed.test_things"
    assert entry.get("file") == "test/distributed/test_things.py"
    assert cases(samples.each())["test_skipped"].get("classname") == "things.test.distributed.test_things.TestThings"


def test_why_a_case_was_skipped_is_said() -> None:
    found = cases(samples.each())
    messages = {name: part.get("message") for name, case in found.items() if (part := case.find("skipped")) is not None}
    assert messages == {
        "test_skipped": "needs 32 ranks",
        "test_xfailed": "failed as expected: issue 7",
        "test_not_run": "not run: the gang was lost",
        "test_bucketing[fused-7]": "in quarantine, failed after 12.40 s: rank 2 on gpu-node-17: "
        "rank 2 on gpu-node-17: AssertionError: 3 buckets, expected 2",
    }


def test_a_failure_says_first_who_and_what_and_then_everything() -> None:
    entry = cases(samples.each())[FAILED.id.rpartition("::")[2]]
    failure = entry.find("failure")
    assert failure is not None
    assert failure.get("message") == "rank 11 on gpu-node-23: AssertionError: Tensor-likes are not close!"
    text = failure.text or ""
    assert text.startswith(FAILED.message)
    assert "ranks 12-13: failed\n      fully_shard_autograd.py:158" in text
    assert "ranks 0-10,14-15: passed" in text


def test_the_case_that_the_end_of_the_run_interrupted_is_an_error_with_its_stacks() -> None:
    error = cases(samples.each())["test_interrupted"].find("error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == ("interrupted", samples.INTERRUPTED.message)
    assert "stacks of rank 1:" in (error.text or "")


def test_a_hang_brings_the_stacks_of_its_ranks() -> None:
    error = cases(samples.each())[HUNG.id.rpartition("::")[2]].find("error")
    assert error is not None
    assert error.get("type") == "hung"
    for part in ("stacks of rank 9:", "stacks of ranks 0-1:", "stacks with C frames of rank 9:", "NCCL's RAS status:"):
        assert part in (error.text or "")


def test_a_flaky_case_passed_and_its_first_try_is_kept() -> None:
    entry = cases(samples.each())[FLAKY.id.rpartition("::")[2]]
    assert result(entry) == "passed"
    flaky = entry.find("flakyFailure")
    assert flaky is not None
    assert flaky.get("message") == "rank 4 on gpu-node-17: AssertionError: 2 warnings where 1 was expected"
    assert "try 1: failed after 4.90 s" in (flaky.text or "")


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_readers_look_for_is_always_there(report: Report) -> None:
    """Counts that agree, names that are there once: GitLab drops the second of a name."""
    root = rendered(report)
    assert root.tag == "testsuites"
    taken = Counter((case.get("classname"), case.get("name")) for case in root.iter("testcase"))
    assert max(taken.values(), default=1) == 1
    assert all(name and class_name for class_name, name in taken)
    for suite in root:
        assert suite.tag == "testsuite"
        results = Counter(result(case) for case in suite.iter("testcase"))
        assert suite.get("name")
        assert float(suite.get("time", "")) >= 0
        assert {key: int(suite.get(key, "")) for key in ("tests", "failures", "errors", "skipped")} == {
            "tests": results.total(),
            "failures": results["failure"],
            "errors": results["error"],
            "skipped": results["skipped"],
        }
    for key in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(key, "")) == sum(int(suite.get(key, "")) for suite in root)
    for part in root.iter():
        if part.tag in {"failure", "error", "skipped"}:
            assert part.get("message"), "readers show the attribute or the text: each has to be there"
            assert part.text
            assert part.get("type")
    assert all(float(case.get("time", "")) >= 0 for case in root.iter("testcase"))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_another_reader_reads_the_same(report: Report) -> None:
    text = junit.render(samples.subject(report))
    parsed = xunit2.JUnitXml.fromstring(text.encode())
    root = ET.fromstring(text)  # noqa: S314  # our own
    assert (parsed.tests, parsed.failures, parsed.errors) == tuple(
        int(root.get(key, "")) for key in ("tests", "failures", "errors")
    )
    stated = [(suite.tests, suite.failures, suite.errors, suite.skipped) for suite in parsed]
    parsed.update_statistics()  # type: ignore[no-untyped-call]
    assert [(suite.tests, suite.failures, suite.errors, suite.skipped) for suite in parsed] == stated
    kinds = {junitparser.Failure: "failure", junitparser.Error: "error", junitparser.Skipped: "skipped"}
    read = [
        (case.classname, case.name, kinds[type(case.result[0])] if case.result else "passed")
        for suite in parsed
        for case in suite
    ]
    assert read == [(case.get("classname"), case.get("name"), result(case)) for case in root.iter("testcase")]


def test_what_xml_forbids_is_spelled_out() -> None:
    text = junit.render(samples.subject(samples.hostile()))
    assert "\\x1b[31mred" in text
    assert "\\ud800" in text
    assert "\\u202e" in text
    assert not [one for one in set(text) if not (one.isprintable() or one in "\n\t")]
    assert "<script>" not in text


def test_names_that_are_there_twice_get_numbers() -> None:
    twice = samples.PASSED
    report = a_report(a_suite("s", [twice, twice]), a_suite("s", [twice]))
    names = [case.get("name") for case in rendered(report).iter("testcase")]
    assert names == ["test_passed[a::b]", "test_passed[a::b] (2)", "test_passed[a::b] (3)"]


def test_twenty_thousand_failures_are_no_trouble() -> None:
    start = time.process_time()
    text = junit.render(samples.subject(samples.failures(20_000)))
    assert time.process_time() - start < 20, "seconds; 2 are usual"
    assert len(text.encode()) < 30_000_000, "limit of GitLab for one file"
    assert len(list(ET.fromstring(text).iter())) < 250_000, "limit of GitLab for elements"  # noqa: S314  # our own
