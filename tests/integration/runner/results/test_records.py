"""Log records and warnings of a case that fails are in the report, by rank; those of other cases are not."""

from pathlib import Path

from disttest_contract.outcomes import Outcome
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

SOURCE = """
import logging
import sys
import warnings

log = logging.getLogger("mine")

def test_good():
    log.warning("of a case that passed")

def test_bad(gang):
    log.warning("rank %d looks odd", gang.rank)
    log.info("not at this level")
    warnings.warn("an old way")
    assert gang.rank == 0

def test_quiet(gang):
    assert gang.rank == 0

def test_unformattable(gang):
    logging.error("%d", "no number")
    assert gang.rank == 0
"""


def test_logs_of_a_failed_case_are_in_the_report(tmp_path: Path) -> None:
    gang = AgentGang(make_plan(suite_of(tmp_path / "suite", SOURCE), nodes=1), tmp_path)
    report = gang.run()
    good, bad, quiet, odd = report.suites[0].cases
    assert (good.outcome, bad.outcome) == (Outcome.PASSED, Outcome.FAILED), gang.text
    assert bad.logs == {1: "WARNING  mine:test_it.py:12 rank 1 looks odd\ntest_it.py:14: UserWarning: an old way"}
    assert (good.logs, quiet.logs) == ({}, {})
    assert odd.logs == {1: "ERROR    root: a record that cannot be formatted: TypeError"}
    assert "rank 1 looks odd" in gang.text, "Python still writes what no handler takes to standard error"
