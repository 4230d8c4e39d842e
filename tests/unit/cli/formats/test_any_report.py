"""Any report in every format is valid for readers of the format and within its limits."""

import dataclasses
import html.parser
import json
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from disttest_cli.compare import renderers
from disttest_cli.compare.differences import compare
from disttest_cli.formats import case_text, gfm, markdown
from disttest_cli.formats.subject import Subject
from disttest_cli.views import outputs
from disttest_contract.results.report import Report
from tests.support.reports import report_strategies as made
from tests.support.reports.hostile import forbidden
from tests.support.reports.reports import a_night

VOID = {"meta", "br", "hr", "img", "input", "link", "col"}
CODE = re.compile(r"(?s)(`+)(?!`).+?(?<!`)\1(?!`)")


class Page(html.parser.HTMLParser):
    """Which elements there are, and whether each is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.kinds: set[str] = set()
        self.handlers: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # type: ignore[explicit-override]  # typing has it since Python 3.12
        self.kinds.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:  # type: ignore[explicit-override]  # as above
        if tag in self.open:
            while self.open.pop() != tag:
                pass


USUAL = Page(outputs.render_report(Subject(report=made.SAMPLE), "html"))


@given(made.documents)
def test_any_value_in_any_field_is_read_or_refused_in_a_sentence(document: object) -> None:
    report = made.readable(document)
    if report is None:
        return
    for name in outputs.FORMATS:
        assert forbidden(outputs.render_report(Subject(report=report), name)) == []


@pytest.mark.parametrize("name", ["ctrf", "html", "json", "junit", "markdown"])
def test_settings_that_differ_are_in_every_format(name: str) -> None:
    report = dataclasses.replace(a_night(), settings={"NCCL_ALGO (mine)": "Ring"})
    shown = outputs.render_report(Subject(report=report), name)
    assert "NCCL_ALGO (mine)" in shown
    assert "Ring" in shown


@given(made.reports())
def test_what_is_made_of_any_report_can_be_read_by_others(report: Report) -> None:
    subject = Subject(report=report)
    root = ET.fromstring(outputs.render_report(subject, "junit"))  # noqa: S314  # our own
    assert len(root.findall(".//testcase")) >= sum(len(suite.cases) for suite in report.suites)
    ctrf = json.loads(outputs.render_report(subject, "ctrf"), parse_constant=pytest.fail)
    assert ctrf["results"]["summary"]["tests"] == len(ctrf["results"]["tests"])
    again = Report.loads(outputs.render_report(subject, "json").encode())
    assert [suite.counts for suite in again.suites] == [suite.counts for suite in report.suites]


@given(made.reports())
def test_a_page_has_no_element_of_the_reports(report: Report) -> None:
    page = Page(outputs.render_report(Subject(report=report), "html"))
    assert page.kinds - USUAL.kinds <= {"details", "pre", "svg", "rect", "path", "line", "text", "circle", "summary"}
    assert not page.handlers
    assert "a" not in page.kinds - USUAL.kinds
    assert page.open == USUAL.open


@given(made.reports())
def test_markdown_keeps_its_size_its_cells_and_what_is_code(report: Report) -> None:
    limit = markdown.LEAST_BYTES
    assert len(outputs.render_report(Subject(report=report), "markdown", limit_bytes=limit).encode()) <= limit
    for page in (
        outputs.render_report(Subject(report=report), "markdown"),
        renderers.markdown(compare(report, report)),
    ):
        for table in re.findall(r"(?m)(?:^\|.*\n)+", page):
            assert len({line.count("|") for line in table.splitlines()}) == 1
        plain = CODE.sub("", re.sub(r"<code>.*?</code>", "", page))
        assert not re.search(r"@everyone|https?://|!\[|<(?!/?(?:details|summary)>)", plain)


@given(made.reports(), made.reports())
def test_any_two_are_compared(a: Report, b: Report) -> None:
    comparison = compare(a, b)
    assert not [bad for line in renderers.lines(comparison) for bad in forbidden(line.plain)]
    assert forbidden(renderers.markdown(comparison)) == []
    json.dumps(renderers.json_document(comparison))


@given(made.TEXTS)
def test_code_is_one_piece_of_code(said: str) -> None:
    for made_of in (gfm.code(said), gfm.cell(said)):
        assert not made_of or CODE.fullmatch(made_of)
    assert "|" not in gfm.cell(said)
    fence, *_, last = gfm.block(said, 1000).splitlines()
    assert fence == f"{last}text"
    assert gfm.block(said, 1000).count(last) == 2


@given(made.reports())
def test_what_a_case_says_is_within_its_limit(report: Report) -> None:
    for suite in report.suites:
        for case in suite.cases:
            assert len(case_text.case_body(case, 1000).encode()) <= 1000
            assert len(case_text.case_title(case).encode()) <= case_text.TITLE_BYTES
