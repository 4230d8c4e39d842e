"""Markdown: its content, that nothing in it is more than text, and that it is never too large."""

import dataclasses
import re
import time
from html.parser import HTMLParser

import pytest

from disttest_cli.formats import gfm, markdown
from disttest_cli.formats.subject import Subject
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from tests.support.reports import report_samples as samples
from tests.support.reports.reports import a_good_night, a_night, a_report, a_suite
from tests.unit.cli.formats.conftest import Matches

FENCE = re.compile(r"^(`{3,})text$")
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
OURS = {"details", "summary", "code"}


def rendered(report: Report, limit_bytes: int = markdown.DEFAULT_BYTES) -> str:
    return markdown.render(samples.subject(report), limit_bytes)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # type: ignore[explicit-override]  # noqa: ARG002
        self.seen.add(tag)


def outside_code(text: str) -> str:
    """What a renderer sees as markup: without blocks and spans of code."""
    kept, fence = [], ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif found := FENCE.match(line):
            fence = found.group(1)
        else:
            kept.append(re.sub(r"<code>.*?</code>", "", SPAN.sub("", line)))
    assert not fence, "a block of code is closed"
    return "\n".join(kept)


def test_a_report_with_every_outcome_reads_like_this(matches: Matches) -> None:
    matches(rendered(samples.each()), "each.md")


def test_a_run_without_cases_reads_like_this(matches: Matches) -> None:
    matches(markdown.render(Subject(report=samples.lost())), "lost.md")


@pytest.mark.parametrize("verdict", Verdict)
def test_the_verdict_is_what_one_sees_first(verdict: Verdict) -> None:
    first = rendered(a_report(verdict=verdict, reason=Reason.TERMINATED)).splitlines()[0]
    assert f"{verdict.value} (Terminated)" in first
    assert ("✅" in first) == (verdict is Verdict.PASSED)


def test_a_good_night_has_no_failures() -> None:
    text = rendered(a_good_night())
    assert "## Failures" not in text
    assert "## Bandwidth" in text
    assert "missed" not in text


def test_what_the_report_lost_is_said() -> None:
    assert "Omitted: `stacks`" in rendered(samples.each(trimmed="stacks"))


def test_failures_that_are_not_in_the_report_are_counted() -> None:
    text = rendered(samples.trimmed())
    assert "## Failures (43)" in text
    assert "**42 more failures** omitted from the report because of its size limit." in text
    assert "**947 cases**: 901 passed, 43 failed" in text


def test_a_missed_threshold_stands_out() -> None:
    assert "**missed: 70.0 GB/s**" in rendered(a_night())


@pytest.mark.parametrize("limit_bytes", [markdown.LEAST_BYTES, 20_000, 65_536, markdown.DEFAULT_BYTES])
@pytest.mark.parametrize(
    "report",
    [samples.hostile(), samples.failures(20), samples.nothing(), a_night(), *map(samples.generated, range(8))],
    ids=lambda report: report.name[:20],
)
def test_it_is_never_larger_than_it_may_be_and_nothing_in_it_is_markup(report: Report, limit_bytes: int) -> None:
    text = rendered(report, limit_bytes)
    assert len(text.encode()) <= limit_bytes
    left = outside_code(text)
    tags = Tags()
    tags.feed(left)
    assert tags.seen <= OURS
    for part in ("@octocat", "http", "www.", "a@b", "<script", "](", "#1", "- list", "# heading"):
        assert part not in left
    assert not [one for one in set(text) if not (one.isprintable() or one in "\n\t\ufe0f")]


def test_tables_have_the_same_number_of_cells_in_every_row() -> None:
    sections = rendered(samples.hostile()).split("\n## ")
    tables = [section for section in sections if section.startswith(("Suites", "Bandwidth"))]
    rows = [line for section in tables for line in section.split("\n") if line.startswith("| ")]
    sizes = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert len(rows) > len(samples.NASTY)
    assert sizes == {8, 10}, "suites have 7 columns, bandwidth with thresholds has 9"


@pytest.mark.parametrize("limit_bytes", [markdown.LEAST_BYTES, 65_536, markdown.DEFAULT_BYTES])
def test_of_twenty_thousand_failures_it_is_said_how_many_are_not_shown(limit_bytes: int) -> None:
    start = time.process_time()
    text = rendered(samples.failures(20_000), limit_bytes)
    assert time.process_time() - start < 10, "seconds; a fraction of one is usual"
    assert limit_bytes * 0.6 < len(text.encode()) <= limit_bytes
    shown = text.count("<summary>") + text.count(f"\n- `things: {samples.FILE}::test_")
    [left_out] = re.findall(r"\*\*(\d+) more failures\*\* in the report", text)
    assert text.count("<summary>") > 0
    assert shown + int(left_out) == 20_000
    assert "**20000 cases**: 0 passed, 20000 failed" in text


def test_what_has_no_room_is_named() -> None:
    report = a_night()
    report = dataclasses.replace(report, suites=report.suites * 10)
    text = rendered(report, markdown.LEAST_BYTES)
    assert "_Omitted because of the size limit: suites" in text
    assert "## Environment" in rendered(report)


def test_quarantined_and_flaky_cases_are_distinguished_from_failures() -> None:
    report = a_report(a_suite("s", samples.EACH))
    text = rendered(report)
    assert f"## Failures ({len(report.failures)})" in text
    assert "## Flaky (1)" in text
    assert "## In quarantine (1)" in text
    assert report.counts[Outcome.FAILED] == len(report.failures) - 3 + 1


@pytest.mark.parametrize("text", samples.NASTY)
def test_code_holds_any_text(text: str) -> None:
    found = gfm.code(text)
    assert "\n" not in found
    if text.strip():
        [(fence, inside)] = re.findall(r"^(`+)(?!`)(.*?)(?<!`)\1$", found)
        assert fence not in re.findall("`+", inside), "no run of ticks inside is as long as the one that ends it"
    else:
        assert found == ""
