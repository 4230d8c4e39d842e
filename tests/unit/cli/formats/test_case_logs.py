"""Log records and warnings of a failed case are in every format, once for ranks that share them."""

import dataclasses
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from disttest_cli.formats import ctrf, junit, markdown, table
from disttest_cli.formats.html import page
from disttest_cli.formats.subject import Subject
from tests.support.reports import report_samples as samples
from tests.support.reports.report_cases import FAILED
from tests.support.reports.reports import a_report, a_suite

RECORD = "WARNING  mine:test_it.py:12 it looks odd"
FORMATS: dict[str, Callable[[Subject], str]] = {
    "text": lambda subject: table.render_report(subject.report),
    "html": page.render,
    "junit": junit.render,
    "ctrf": ctrf.render,
    "markdown": markdown.render,
}
SUBJECT = samples.subject(a_report(a_suite("mine", [dataclasses.replace(FAILED, logs={0: RECORD, 3: RECORD})])))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_shows_what_a_failed_case_logged(name: str) -> None:
    assert FORMATS[name](SUBJECT).count(RECORD) == 1


def test_junit_has_it_as_standard_error_of_the_case() -> None:
    [found] = ET.fromstring(junit.render(SUBJECT)).iter("system-err")  # noqa: S314 - it is our own
    assert found.text == f"log records and warnings of ranks 0,3:\n{RECORD}"
