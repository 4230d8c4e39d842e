"""The list of known failures: valid lines, and the cases that they match."""

import dataclasses
import time
from typing import Any

import pytest

from disttest_contract import limits
from disttest_contract.gang import quarantine
from disttest_contract.gang.quarantine import InvalidListError, Matcher
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, SuiteResult, judge_cases

SUITES = ("collectives", "mine")
PASSED = CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=0.1)
KNOWN = CaseResult(id="t.py::test_b", outcome=Outcome.CRASHED, seconds=0.1, quarantined=True)


@pytest.mark.parametrize(
    ("pattern", "case_id", "fits"),
    [
        ("t.py::test_x", "t.py::test_x", True),
        ("t.py::test_x", "t.py::test_xy", False),
        ("t.py::test_x", "T.py::test_x", False),
        ("t.py::test_x", "d/t.py::test_x", False),
        ("t.py::test_x[1-a]", "t.py::test_x[1-a]", True),
        ("t.py::test_x[1-a]", "t.py::test_x1", False),
        ("t.py::test_x[?]", "t.py::test_x[1]", False),
        ("t.py::test_x[*]", "t.py::test_x[a/b::c]", True),
        ("t.py::test_x[*]", "t.py::test_x[]", True),
        ("t.py::test_x[*]", "t.py::test_x", False),
        ("t.py::test_x[*-nccl]", "t.py::test_x[1-gloo-nccl]", True),
        ("test/*/t.py::*", "test/distributed/fsdp/t.py::C::test_x", True),
        ("*::C::test_*_x", "t.py::C::test_one_x", True),
        ("*::C::test_*_x", "t.py::C::test_x", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*ab*ab", "ab", False),
        ("*ab*ab", "abab", True),
        ("a*b*c", "acbbc", True),
        ("a*b*c", "acb", False),
        ("a**b", "ab", True),
    ],
)
def test_only_an_asterisk_stands_for_something_else(pattern: str, case_id: str, *, fits: bool) -> None:
    matcher = Matcher([pattern])
    assert matcher.has(case_id) is fits
    assert matcher.which(case_id) == ([pattern] if fits else [])


def test_a_pattern_made_to_take_long_takes_no_time() -> None:
    matcher = Matcher(["*a" * 200 + "*b", "*" * 400 + "b"])
    started = time.process_time()
    assert not matcher.has("a" * 100_000)
    assert time.process_time() - started < 1


def test_a_list_has_one_case_a_line_with_remarks_and_empty_lines() -> None:
    text = "# torch/issues/1\r\n  t.py::test_x[1 2]  \n\n\t# more\nt.py::C::*\nt.py::test_x[1 2]\n"
    config_map = {"data": {"mine": text, "collectives": "# none\n"}}
    assert quarantine.read(config_map, SUITES) == {"mine": ("t.py::test_x[1 2]", "t.py::C::*")}


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": {}, "binaryData": {}}])
def test_an_empty_list_means_no_case(body: dict[str, Any]) -> None:
    assert quarantine.read(body, SUITES) == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"data": {"colectives": "t.py::test_x"}},
            "'colectives' is not a suite of this run. Its suites: collectives, mine",
        ),
        ({"binaryData": {"mine": "AAA="}}, "'mine' is not UTF-8 text"),
        ({"data": {"mine": 7}}, "'mine' is not text"),
        ({"data": {"mine": "a\n" + "x" * 513}}, "'mine', line 2: the line is longer than 512 bytes"),
        ({"data": {"mine": "t.py::\x1b[31m"}}, "line 1: 't.py::\\x1b[31m' has characters that are not printable"),
        ({"data": {"mine": "**"}}, "'**' matches every case. Remove the suite"),
        (
            {"data": {"mine": "\n".join(f"t.py::test_{n}" for n in range(limits.QUARANTINED + 1))}},
            "has 257 lines, more than 256",
        ),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_the_place(body: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidListError) as caught:
        quarantine.read(body, SUITES)
    assert words in str(caught.value)


def test_a_case_in_quarantine_is_excused_only_if_it_ended_badly() -> None:
    good = dataclasses.replace(KNOWN, outcome=Outcome.PASSED)
    assert (KNOWN.is_excused, KNOWN.is_red, good.is_excused, good.is_red) == (True, False, False, False)
    assert dataclasses.replace(KNOWN, quarantined=False).is_red


def test_the_mark_of_a_case_comes_back_from_its_json_and_nothing_else_is_one() -> None:
    assert CaseResult.from_json(KNOWN.to_json()) == KNOWN
    assert "quarantined" not in PASSED.to_json()
    assert not CaseResult.from_json({**KNOWN.to_json(), "quarantined": "yes"}).quarantined


def test_a_suite_counts_what_it_excuses_and_needs_a_pass() -> None:
    suite = SuiteResult(
        name="s", verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED, seconds=1, cases=(PASSED, KNOWN)
    )
    assert (suite.counts.total, suite.counts.bad, suite.counts.quarantined) == (2, 1, 1)
    assert judge_cases(suite.cases) == (Verdict.PASSED, Reason.ALL_CASES_PASSED)
    assert judge_cases([KNOWN]) == (Verdict.ERRORED, Reason.NO_CASES_PASSED)
