"""Texts, numbers and names of a report on their way into other formats."""

import math

import pytest

from disttest_cli.formats import case_text, values
from disttest_cli.formats.case_text import CaseName
from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult
from disttest_contract.text import escaping
from tests.support.reports import report_samples as samples
from tests.support.reports.report_cases import CRASHED, FAILED


def test_one_line_is_one_line_and_not_too_long() -> None:
    assert escaping.short_line(" a\n b\r\tc ", 100) == "a b c"
    assert escaping.short_line("x" * 10_000, 100) == "x" * 97 + "…"
    assert escaping.short_block("x" * 10_000, 100) == "x" * 97 + "…"
    assert escaping.short_block("x" * 100, 100) == "x" * 100


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, None])
def test_what_is_no_duration_is_none(value: float | None) -> None:
    assert values.seconds(value) == 0
    assert values.milliseconds(value) == 0
    assert values.moment(value) is None


def test_a_time_that_no_calendar_has_is_none() -> None:
    assert values.moment(1e300) is None
    assert values.moment(values.MOST_SECONDS) is not None


@pytest.mark.parametrize(
    ("case_id", "expected"),
    [
        ("a/b.py::test_c", CaseName(file="a/b.py", classes=(), name="test_c")),
        ("a.py::TestB::test_c[d::e[f]]", CaseName(file="a.py", classes=("TestB",), name="test_c[d::e[f]]")),
        ("thresholds::all_reduce[1024]", CaseName(file="", classes=("thresholds",), name="all_reduce[1024]")),
        ("nothing of the kind", CaseName(file="", classes=(), name="nothing of the kind")),
        ("", CaseName(file="", classes=(), name="(without a name)")),
        ("[x]", CaseName(file="", classes=(), name="[x]")),
        ("a.py", CaseName(file="", classes=(), name="a.py")),
    ],
)
def test_a_case_id_has_a_file_classes_and_a_name(case_id: str, expected: CaseName) -> None:
    assert case_text.split_id(case_id) == expected


def test_a_title_says_who_and_what() -> None:
    assert case_text.case_title(FAILED) == "rank 11 on gpu-node-23: AssertionError: Tensor-likes are not close!"
    assert case_text.case_title(CRASHED) == "rank 13 on gpu-node-23 was killed by SIGSEGV"
    assert case_text.title("rank 3:\nsomething\nlast line", "") == "rank 3: last line"
    assert case_text.title("\n \n", "otherwise") == "otherwise"


def test_a_case_without_a_word_is_described_by_how_it_ended() -> None:
    left = CaseResult(id="x", outcome=Outcome.CRASHED, seconds=2, ranks=(0, 1, 5), nodes=("a", "b"), exit_code=3)
    assert case_text.case_title(left) == "crashed after 2.00 s: ranks 0-1,5 on a, b, exit code 3"
    assert case_text.case_body(left, 1000) == case_text.case_title(left)


def test_a_body_is_cut_where_there_is_no_room() -> None:
    body = case_text.case_body(FAILED, 300)
    assert len(body.encode()) <= 300
    assert body.endswith("…")
    assert body.startswith("rank 11 on gpu-node-23:")


@pytest.mark.parametrize(("count", "limit"), [(0, 64 << 10), (1, 64 << 10), (20_000, 629), (100_000, 512)])
def test_the_more_cases_the_less_each_may_say(count: int, limit: int) -> None:
    assert case_text.body_limit(count) == limit


@pytest.mark.parametrize("text", samples.NASTY)
def test_any_text_is_a_title_and_a_name(text: str) -> None:
    assert case_text.title(text, "otherwise").isprintable()
    found = case_text.split_id(text)
    assert case_text.class_name(text, found)
    assert found.name.isprintable()
