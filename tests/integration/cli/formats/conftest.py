"""Pages in a real headless browser."""

import dataclasses

import pytest

from disttest_cli.formats.html import render
from tests.support.browsers.browser import browser, open_page
from tests.support.reports.reports import a_night, a_subject, many

__all__ = ["browser", "open_page"]
CASES = 5000


@pytest.fixture(scope="session")
def night() -> str:
    return render(a_subject())


@pytest.fixture(scope="session")
def short_night() -> str:
    """What ended badly or is notable, and a few others: axe looks at each row for long."""
    report = a_night()
    suites = tuple(
        dataclasses.replace(
            suite, cases=(*suite.cases[:2], *(case for case in suite.cases if case.by_rank or case.earlier))
        )
        for suite in report.suites
    )
    measured = next(case for case in report.suites[0].cases if case.is_red)
    first = dataclasses.replace(suites[0], cases=(*suites[0].cases, measured))
    return render(a_subject(dataclasses.replace(report, suites=(first, *suites[1:]), trimmed="ends of stacks")))


@pytest.fixture(scope="session")
def long_night() -> str:
    return render(a_subject(many(CASES)))
