"""Every fault of the table: the right outcome, the cause instead of the victim, in time, and the run continues."""

from collections.abc import Iterator

import pytest

from bench.figure import at_least, exactly, record
from tests.integration.runner.faults import table
from tests.integration.runner.faults.fault import Fault, Trial, problems
from tests.integration.runner.faults.in_cases import CASE_SECONDS


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """A second run of the tests in one process tries again."""
    yield
    table.found.cache_clear()


@pytest.mark.parametrize(("trial", "fault"), table.FAULTS, ids=[fault.name for _, fault in table.FAULTS])
def test_a_fault_ends_as_the_table_says(trial: Trial, fault: Fault) -> None:
    if lacks := trial.lacks():
        pytest.skip(lacks)
    shown = table.found(trial)
    assert fault.name in shown, "the run did not come that far"
    found = shown[fault.name]
    assert problems(fault, found) == [], f"{found.message}\n{found.log[-4000:]}"


def test_no_fault_is_listed_twice() -> None:
    names = [fault.name for _, fault in table.FAULTS]
    assert len(set(names)) == len(names)


def test_every_case_that_hangs_is_limited_by_the_deadline() -> None:
    hangs = [fault for _, fault in table.FAULTS if fault.outcome == "hung"]
    assert len(hangs) >= 3
    assert all(CASE_SECONDS < fault.limit_seconds <= CASE_SECONDS + 3 for fault in hangs)


@pytest.mark.usefixtures("updates_faults")
def test_all_faults_are_documented_as_shown() -> None:
    shown = table.write_document()
    tried = [row for row in shown if not row.lacks]
    figures = [
        at_least("faults_as_expected", sum(not row.problems for row in tried), "faults", len(tried)),
        exactly("faults_not_shown_here", len(shown) - len(tried), "faults"),
    ]
    record(figures)
    assert all(figure.is_met for figure in figures)
