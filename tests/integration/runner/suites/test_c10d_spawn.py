"""Torch's own suite of 285 tests, unmodified: every one ends as the golden table says, on one node and on two."""

from typing import Any

import pytest

from disttest_contract.outcomes import Verdict
from disttest_contract.results.report import Report
from tests.integration.runner.suites import c10d_table
from tests.support.gangs.gang import only_suite

GOLDEN = c10d_table.golden("c10d_spawn_gloo.json")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((1, 2), id="1 node x 2 ranks", marks=pytest.mark.soak),
        pytest.param((2, 1), id="2 nodes x 1 rank"),
    ],
)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    nodes, ranks = request.param
    return c10d_table.run(tmp_path_factory.mktemp("c10d"), nodes=nodes, ranks=ranks)


def names(table: dict[str, Any]) -> list[str]:
    """Of all cases in it."""
    lists = [cases for key, cases in table.items() if key != "skipped"] + list(table["skipped"].values())
    return [name for cases in lists for name in cases]


def test_every_case_ends_as_the_golden_table_says(report: Report) -> None:
    assert c10d_table.table(only_suite(report).cases) == GOLDEN


def test_the_suite_passes(report: Report) -> None:
    assert report.verdict is Verdict.PASSED
    assert report.generations == 1, "no case needed new processes"


def test_the_table_holds_every_case_once() -> None:
    assert len(names(GOLDEN)) == len(set(names(GOLDEN))) == 285
