"""What is on the page, and what is left out of it; how it looks is for tests in a browser."""

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from disttest_cli.formats.html import page, render
from disttest_cli.formats.html.cases import SHOWN, failures, shared
from disttest_cli.formats.html.facts import environment, odd
from disttest_cli.formats.subject import Subject
from disttest_cli.views import outputs
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import LeftOut
from tests.support.reports.hostile import a_hostile_subject
from tests.support.reports.reports import (
    FACTS,
    OTHER_FACTS,
    STATUS,
    a_good_night,
    a_night,
    a_report,
    a_subject,
    a_suite,
    many,
)

FEW_BYTES = 1_400_000  # of 5,000 cases
FULL = CaseResult(id="t.py::a", outcome=Outcome.FAILED, seconds=1, message="no", stacks={0: "x" * (8 << 20)})


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # type: ignore[explicit-override]  # Python 3.11 has none
        self.seen.append((tag, dict(attrs)))


def test_it_is_complete_in_itself() -> None:
    tags = Tags(render(a_subject())).seen
    fetched = [(tag, found) for tag, found in tags if {"src", "srcset", "data", "action"} & found.keys()]
    assert fetched == []
    assert [found["href"] for _, found in tags if not str(found.get("href", "#")).startswith("#")] == []
    assert [tag for tag, _ in tags if tag in ("link", "img", "iframe", "object", "base")] == []


def test_it_is_the_format_html_of_the_command_line() -> None:
    assert outputs.render_report(a_subject(), "html") == render(a_subject())


def test_links_lead_somewhere_and_ids_are_there_once() -> None:
    tags = Tags(render(a_subject())).seen
    ids = [found["id"] for _, found in tags if "id" in found]
    assert len(ids) == len(set(ids))
    assert {str(found["href"])[1:] for _, found in tags if "href" in found} <= set(ids)


def test_the_policy_allows_our_own_script_and_style_alone() -> None:
    tags = Tags(render(a_subject())).seen
    policy = next(str(found["content"]) for tag, found in tags if tag == "meta" and "http-equiv" in found)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert [tag for tag, _ in tags].count("script") == 1


def test_texts_of_a_forged_report_are_texts() -> None:
    html = render(a_hostile_subject())
    tags = Tags(html).seen
    assert [tag for tag, _ in tags if tag in ("img", "script")] == ["script"]
    assert [found for _, found in tags if any(name.startswith("on") or name == "style" for name in found)] == []
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)
    html.encode()  # halves of characters would raise


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("reason", [Reason.ALL_CASES_PASSED, Reason.GANG_LOST, Reason.QUEUE_TIMEOUT])
def test_a_run_that_came_to_no_case_has_a_page(verdict: Verdict, reason: Reason) -> None:
    report = a_report(verdict=verdict, reason=reason, message="why", preflight=(), joined=None, first_case=None)
    html = render(Subject(report=report))
    assert f"<title>{verdict.value}: gpu-ci/nightly-2x8-7d4kq</title>" in html
    assert "No node reported its environment" in html


def test_what_was_left_out_is_said_before_all_else() -> None:
    html = render(Subject(report=dataclasses.replace(a_night(), trimmed="ends of stacks")))
    assert "Omitted from this report because of its size:" in html
    assert html.index("ends of stacks") < html.index("<h1")
    assert "Omitted from this report" not in render(a_subject())


def test_cases_that_a_report_counts_but_omits_are_mentioned() -> None:
    left_out = LeftOut(by_outcome={Outcome.PASSED: 70, Outcome.FAILED: 9}, excused={Outcome.FAILED: 2})
    night = a_night()
    suite = dataclasses.replace(night.suites[0], left_out=left_out)
    html = render(Subject(report=dataclasses.replace(night, suites=(suite, *night.suites[1:]), trimmed="cases")))
    assert "<b>479</b> cases" in html
    assert "79 cases are counted above, but omitted from this report" in html
    assert "7 more failures omitted from the report because of its size" in html
    assert 'aria-live="polite">400 cases</p>' in html


def test_earlier_attempts_and_suspect_nodes_are_shown_if_the_status_has_them() -> None:
    html = render(a_subject())
    assert "Earlier attempts" in html
    assert "rank 12 on gpu-node-09, SIGABRT: NVRM: Xid" in html
    assert "<strong>gpu-node-09</strong> NodeUnhealthy: Xid 79 on GPU 4" in html
    of_a_file = render(a_subject(status={}))
    assert "Earlier attempts" not in of_a_file
    own = {"attempts": [{**STATUS["attempts"][0], "number": 2}]}
    assert "Earlier attempts" not in render(a_subject(status=own)), "the report's own attempt is not before it"


def test_failures_come_worst_first_and_those_in_quarantine_apart() -> None:
    section = failures(a_night())
    assert [one.case.outcome.value for one in section.red] == ["hung", "crashed", "errored", "failed", "failed"]
    assert [one.case.quarantined for one in section.excused] == [True]
    assert [one.case.is_flaky for one in section.flaky] == [True]
    assert section.blamed == (("gpu-node-23", 4),)
    assert failures(a_good_night()).red == ()


def test_ranks_with_the_same_stack_share_it_and_the_blamed_come_first() -> None:
    assert shared({0: "waits", 1: "waits", 2: "sleeps", 3: "waits"}, [2]) == (
        ("rank 2", "sleeps"),
        ("ranks 0-1,3", "waits"),
    )


@pytest.mark.parametrize(
    ("cases", "shown"),
    [([dataclasses.replace(FULL, stacks={})] * (SHOWN + 7), SHOWN), ([FULL] * 5, 1)],
    ids=["many", "large"],
)
def test_the_number_of_failures_with_details_is_limited(cases: list[CaseResult], shown: int) -> None:
    section = failures(a_report(a_suite("s", cases)))
    assert (len(section.red), section.left_out) == (shown, len(cases) - shown)


def test_five_thousand_cases_make_a_page_of_a_megabyte() -> None:
    html = render(Subject(report=many(5000)))
    assert html.count("<tr class=") >= 5000
    assert len(html.encode()) < FEW_BYTES


def test_too_many_cases_lose_good_ones_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ROWS", 100)
    report = many(1000, bad_every=10)
    rows, left_out = page.all_cases(report)
    assert (len(rows), left_out) == (100, 900)
    assert all(case.outcome is Outcome.FAILED for _, case in rows), "a hundred have failed: there is room for no other"
    assert "900 cases omitted from this page" in render(Subject(report=report))


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        (("a", "a"), (1, 1), set()),
        (("a", "b"), (1, 1), {0, 1}),
        (("a", "b"), (63, 1), {1}),
        (("a", "b", "a"), (1, 1, 1), {1}),
    ],
)
def test_the_odd_one_is_who_differs_from_most(
    values: tuple[str, ...], weights: tuple[int, ...], expected: set[int]
) -> None:
    assert odd(values, weights) == expected


def test_nodes_that_are_alike_share_a_column() -> None:
    nodes = [dataclasses.replace(FACTS, node_name=f"n{index}", round_trip_seconds=index / 1000) for index in range(510)]
    found = environment(dataclasses.replace(a_night(), preflight=(*nodes, OTHER_FACTS)))
    assert found is not None
    assert found.columns == (("n0, n1, n2, n3 and 506 more", 510), ("gpu-node-23", 1))
    assert {fact.name: set(fact.odd) for fact in found.facts if fact.odd} == {
        "driver": {1},
        "shared memory": {1},
        "kernel": {1},
    }
    assert found.clocks == "The largest clock offset from the leader is 2.1 ms (gpu-node-23)."
