"""The report: what is written comes back, what is unknown is ignored, what is wrong is refused."""

import dataclasses
import json
import math
import tracemalloc

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import CaseResult, InvalidReportError, RankEnding, RankGroup, Report, SuiteResult
from disttest_contract.results.thresholds import Threshold

CRASH = CaseResult(
    id="test_x.py::test_crash",
    outcome=Outcome.CRASHED,
    seconds=0.5,
    message="rank 3 on node-b was killed by SIGSEGV during the case",
    ranks=(3,),
    nodes=("node-b",),
    signal="SIGSEGV",
    at=4.25,
    by_rank=(
        RankGroup(ranks=(3,), ending=RankEnding.CRASHED, message="SIGSEGV"),
        RankGroup(ranks=(0, 1, 2), ending=RankEnding.UNFINISHED),
    ),
    stacks={3: "File x.py, line 1"},
    logs={3: "WARNING  mine:x.py:1 odd"},
)
HANG = CaseResult(
    id="test_x.py::test_hang",
    outcome=Outcome.HUNG,
    seconds=5,
    ranks=(1,),
    stacks={0: "File x.py, line 2"},
    diagnosis=Diagnosis(
        summary="rank 0 waits in all_reduce number 5 of the default group; rank 1 has not joined it",
        states={0: "waits", 1: "is stopped"},
        native={0: "epoll_wait (libc.so.6)"},
        ras="RAS: all is well",
        artifacts="/artifacts/x",
    ),
)
LEFT = CaseResult(id="test_x.py::test_exit", outcome=Outcome.CRASHED, seconds=0.1, ranks=(0,), exit_code=0)
GOOD = CaseResult(id="test_x.py::test_ü[é]", outcome=Outcome.PASSED, seconds=0.25)
REPORT = Report(
    namespace="gpu-ci",
    name="nightly",
    uid="u",
    attempt=2,
    backend="nccl",
    nodes=2,
    ranks_per_node=2,
    node_names=("node-a", "node-b"),
    versions={"torch": "2.13.0"},
    verdict=Verdict.TESTS_FAILED,
    reason=Reason.CASES_CRASHED,
    message="2 of 3 cases failed",
    series="nightly",
    thresholds=(Threshold(collective="all_reduce", size_bytes=1 << 30, min_bus_bandwidth_bytes_per_second=4 * 10**11),),
    trimmed="stacks",
    started=1000.0,
    joined=1001.5,
    first_case=1003.0,
    last_case=None,
    finished=1010.0,
    generations=3,
    suites=(
        SuiteResult(
            name="mine",
            verdict=Verdict.TESTS_FAILED,
            reason=Reason.CASES_CRASHED,
            message="see below",
            seconds=7.0,
            cases=(GOOD, CRASH, LEFT),
        ),
    ),
)


def test_a_report_comes_back_from_its_bytes() -> None:
    assert Report.loads(REPORT.dumps()) == REPORT
    assert REPORT.failures == [("mine", CRASH), ("mine", LEFT)]
    assert REPORT.counts.bad == 2


def test_a_passed_case_costs_three_keys() -> None:
    assert set(GOOD.to_json()) == {"id", "outcome", "seconds"}


def test_unknown_keys_are_ignored_on_every_level() -> None:
    data = json.loads(REPORT.dumps())
    for level in (data, data["world"], data["times"], data["suites"][0], data["suites"][0]["cases"][0]):
        level["weather"] = "fine"
    assert Report.loads(json.dumps(data).encode()) == REPORT


@pytest.mark.parametrize("place", ["", "run", "world", "times"])
def test_a_key_of_another_level_is_unknown(place: str) -> None:
    """A forged report could otherwise have cases whose number and ranks were not checked."""
    data = json.loads(REPORT.dumps())
    sections = {key for key, value in data.items() if isinstance(value, dict)}
    known = {key: (key, value) for key, value in data.items() if key not in sections}
    known |= {key: (section, value) for section in sections for key, value in data[section].items()}
    level = data[place] if place else data
    level |= {key: 7 for key, (section, _) in known.items() if key not in level}
    assert Report.loads(json.dumps(data).encode()) == REPORT


def test_counts_are_taken_from_the_cases_not_from_what_is_claimed() -> None:
    data = json.loads(REPORT.dumps())
    data["counts"] = data["suites"][0]["counts"] = {"total": 99, "passed": 99}
    assert Report.loads(json.dumps(data).encode()).counts == REPORT.counts


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"schema": 1}', b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_report_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidReportError):
        Report.loads(raw)


@pytest.mark.parametrize("key", ["name", "verdict", "reason", "seconds", "cases"])
def test_a_suite_without_a_required_field_is_refused(key: str) -> None:
    data = {name: value for name, value in REPORT.suites[0].to_json().items() if name != key}
    with pytest.raises(KeyError, match=key):
        SuiteResult.from_json(data)


@pytest.mark.parametrize("path", [("verdict",), ("times",), ("suites", 0, "cases", 0, "outcome")])
def test_a_report_with_a_wrong_value_is_refused(path: tuple[str | int, ...]) -> None:
    data = json.loads(REPORT.dumps())
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = "nonsense"
    with pytest.raises(InvalidReportError):
        Report.loads(json.dumps(data).encode())


@pytest.mark.parametrize("path", [("world", "nodes"), ("generations",), ("run", "attempt"), ("atFault",)])
def test_a_report_with_numbers_that_are_none_is_refused(path: tuple[str, ...]) -> None:
    data = json.loads(REPORT.dumps())
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = [math.inf] if path == ("atFault",) else math.inf
    with pytest.raises(InvalidReportError):
        Report.loads(json.dumps(data).encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1e19", "1" + "0" * 19, "-1" + "0" * 4000])
@pytest.mark.parametrize("key", ["seconds", "exitCode"])
def test_a_number_that_no_report_has_is_refused_wherever_it_is(number: str, key: str) -> None:
    raw = json.dumps(json.loads(REPORT.dumps()) | {key: "HERE"}).replace('"HERE"', number)
    with pytest.raises(InvalidReportError):
        Report.loads(raw.encode())


def test_a_report_with_too_many_cases_is_refused() -> None:
    data = json.loads(REPORT.dumps())
    data["suites"][0]["cases"] = [{"id": "x", "outcome": "passed", "seconds": 0}] * (limits.CASES + 1)
    with pytest.raises(InvalidReportError, match="Split it into several runs"):
        Report.loads(json.dumps(data).encode())


def test_a_text_that_would_fill_the_memory_of_its_reader_is_not_read() -> None:
    raw = b'{"schema":2,"x":[' + b"[]," * limits.REPORT_VALUES + b"[]]}"
    tracemalloc.start()
    with pytest.raises(InvalidReportError, match="commas and brackets"):
        Report.loads(raw)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < len(raw)


def test_long_messages_are_cut_with_a_mark() -> None:
    long = CaseResult(id="x", outcome=Outcome.FAILED, seconds=0, message="ü" * 9000)
    message = long.to_json()["message"]
    assert len(message.encode()) <= limits.MESSAGE_BYTES
    assert message.endswith("…")


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "…"), ("abcdef", 5, "ab…"), ("éé", 3, "…"), ("abc", 0, ""), ("é\udcff", 10, "é?")],
)
def test_cutting_counts_bytes(text: str, limit: int, expected: str) -> None:
    assert limits.cut(text, limit) == expected


def test_what_was_seen_of_a_hang_comes_back() -> None:
    hung = CaseResult(id="x", outcome=Outcome.HUNG, seconds=1, diagnosis=Diagnosis())
    for case in (HANG, dataclasses.replace(HANG, diagnosis=Diagnosis(summary="rank 1 is in x.py"))):
        assert CaseResult.from_json(json.loads(json.dumps(case.to_json()))) == case
    assert CaseResult.from_json(hung.to_json()).diagnosis is None, "nothing was seen"
    assert HANG.to_json()["diagnosis"].keys() == {"summary", "states", "native", "ras", "artifacts"}


# Errors for forged reports that are small and expensive to read.
COSTLY = {
    "ranks": (
        {"byRank": [{"ranks": "0-65535", "ending": "passed"}] * 200},
        "names 13107204 ranks in byRank, more than",
    ),
    "characters": ({"message": "x" * (9 << 20) + "\U0001f4a5"}, "as a Python string, more than"),
}


@pytest.mark.parametrize(("parts", "why"), COSTLY.values(), ids=COSTLY)
def test_what_weighs_little_and_costs_much_is_refused_before_it_does(parts: dict[str, object], why: str) -> None:
    data = json.loads(REPORT.dumps())
    data["suites"][0]["cases"][0] |= parts
    raw = json.dumps(data, ensure_ascii=False).encode()
    tracemalloc.start()
    with pytest.raises(InvalidReportError, match=why):
        Report.loads(raw)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < len(raw) + (4 << 20)


def test_what_a_forged_report_says_is_not_repeated_at_length() -> None:
    data = json.loads(REPORT.dumps())
    data["verdict"] = "x" * 10_000
    with pytest.raises(InvalidReportError) as caught:
        Report.loads(json.dumps(data).encode())
    assert len(str(caught.value)) <= limits.REPORT_PROBLEM_BYTES


def test_messages_are_cut_where_they_are_read_too() -> None:
    data = json.loads(REPORT.dumps())
    data["message"] = data["suites"][0]["message"] = data["suites"][0]["cases"][1]["message"] = "\n" * (1 << 20)
    report = Report.loads(json.dumps(data).encode())
    messages = (report.message, report.suites[0].message, report.suites[0].cases[1].message)
    assert max(len(text.encode()) for text in messages) == limits.MESSAGE_BYTES
