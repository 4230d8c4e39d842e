"""A comparison in words, in Markdown and for programs."""

import dataclasses
import json
import re
from typing import Any

import pytest

from disttest_cli.compare import renderers
from disttest_cli.compare.differences import compare
from disttest_contract.outcomes import Outcome
from tests.support import golden
from tests.support.builders import two_nights
from tests.support.builders.compared import a_case, a_night
from tests.support.reports import hostile
from tests.support.reports import reports as made_up

COMPARISON = compare(two_nights.before(), two_nights.after())


def test_all_that_changed_as_text(*, updates_golden: bool) -> None:
    made = "".join(f"{line.plain}\n" for line in renderers.lines(COMPARISON))
    assert "\x1b" not in made
    assert "\u202e" not in made
    golden.check(made, "compare.txt", updates=updates_golden)


def test_all_that_changed_as_markdown(*, updates_golden: bool) -> None:
    golden.check(renderers.markdown(COMPARISON), "compare.md", updates=updates_golden)


def test_all_that_changed_as_json(*, updates_golden: bool) -> None:
    made = json.dumps(renderers.json_document(COMPARISON), indent=2) + "\n"
    golden.check(made, "compare.json", updates=updates_golden)


def test_nothing_of_the_report_is_markup() -> None:
    page = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", renderers.markdown(COMPARISON))
    assert "everybody" not in page
    assert "<b>" not in page
    for line in page.splitlines():
        assert "\\|" not in line


def test_long_lists_are_cut_and_say_so() -> None:
    cases = [f"c{number}" for number in range(25)]
    a = a_night(0, {"mine": [a_case(one) for one in cases]})
    b = a_night(1, {"mine": [a_case(one, Outcome.FAILED) for one in cases]})
    lines = [line.plain for line in renderers.lines(compare(a, b))]
    assert "  5 more; to show all, use -o json" in lines
    assert "5 more; to show all, use `-o json`" in renderers.markdown(compare(a, b)).splitlines()
    assert len(renderers.json_document(compare(a, b))["cases"]["newlyFailing"]) == 25


def test_a_name_of_a_megabyte_stays_short() -> None:
    long = a_case("x" * (1 << 20), Outcome.FAILED, message="y" * (1 << 20))
    comparison = compare(a_night(0, {"mine": []}), a_night(1, {"mine": [long]}))
    assert max(len(line.plain) for line in renderers.lines(comparison)) < 500
    assert max(map(len, renderers.markdown(comparison).splitlines())) < 1000


@pytest.mark.parametrize("is_alike", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_report_that_wants_to_make_trouble_is_compared_all_the_same(*, turned: bool, is_alike: bool) -> None:
    good, bad = made_up.a_good_night(), hostile.a_hostile_subject().report
    if is_alike:
        bad = dataclasses.replace(bad, backend=good.backend, nodes=good.nodes, ranks_per_node=good.ranks_per_node)
        good = dataclasses.replace(good, suites=(*good.suites, *bad.suites))
    reports = [bad, good]
    comparison = compare(*(reversed(reports) if turned else reports))
    for made in (*(line.plain for line in renderers.lines(comparison)), *renderers.markdown(comparison).splitlines()):
        assert made.isprintable(), made[:500]
    json.loads(json.dumps(renderers.json_document(comparison)), parse_constant=pytest.fail)


def test_what_got_worse_is_red_and_what_got_better_green() -> None:
    styles: dict[str, Any] = {}
    for line in renderers.lines(COMPARISON):
        styles |= {line.plain[span.start : span.end]: span.style for span in line.spans}
    shown = {words: styles[words] for words in ("newly failing: 2", "newly passing: 1", "newly flaky: 1", "slower: 1")}
    assert list(shown.values()) == ["bold red", "green", "yellow", "bold red"]
    [last] = renderers.lines(compare(two_nights.before(), two_nights.before()))[-1].spans
    assert last.style == "green"
