"""What test code has forged, on its way through the operator: status, ledger, events, metrics and its own log."""

import dataclasses
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.report import Report
from disttest_operator.core.observed.evidence import ReportFound
from disttest_operator.core.status import events, status
from disttest_operator.core.verdict import rule
from disttest_operator.core.verdict.rule import Ending, ReportedRule
from tests.support.builders.runs import a_pod, a_test, evidence
from tests.support.builders.series import Nights
from tests.support.reports.hostile import NASTY, a_hostile_file, forbidden
from tests.unit.operator.config.test_log_format import as_before, written
from tests.unit.operator.metrics.test_metrics import metrics_of, with_ledgers

__all__ = ["as_before"]

READ = Report.loads(a_hostile_file())
REPORT = dataclasses.replace(READ, suites=(dataclasses.replace(READ.suites[0], name="collectives"),))
LOOK = evidence(
    *(a_pod(index, node=f"node{index}") for index in range(2)),
    test=a_test(),
    report=ReportFound(report=REPORT, raw=b"", sha256="ab" * 32),
    seconds=25,
)
REPORTED = ReportedRule(find=lambda _: Ending(verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED, message=NASTY))


def texts(value: Any) -> Iterator[str]:
    """Keys too."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


def test_texts_of_a_status_and_its_events_have_no_control_characters() -> None:
    ending = rule.first_match((REPORTED,), LOOK)
    assert ending
    for made in (status.finished(LOOK, ending), status.between_attempts(LOOK, ending)):
        notes = [one.note for one in events.between({}, made)]
        assert "owned" in str(made), "the nasty text is in there"
        assert [bad for text in (*texts(made), *notes) for bad in forbidden(text)] == []


def test_texts_of_a_ledger_have_no_control_characters_and_labels_no_markup() -> None:
    series = Nights()
    series.report(REPORT)
    series.report(REPORT)
    assert "owned" in str(series.ledger)
    assert [bad for text in texts(series.ledger) for bad in forbidden(text)] == []
    page = metrics_of(with_ledgers(series)).render("")[0].decode()
    lines = [line for line in page.splitlines() if line.startswith("disttest_") and "owned" in line]
    assert lines
    assert forbidden(page) == []
    assert not [line for line in lines if re.search(r"<|>|@|`|://|\]\(", line)]
    names = [line.rpartition(" ")[0] for line in lines]
    assert len(set(names)) == len(names)


def fail(words: str) -> None:
    raise ValueError(words)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_log_line_has_no_control_characters_and_cannot_forge_another(log_format: str) -> None:
    stream = written(log_format)
    forged = "2026-11-22 00:00:00,000 INFO disttest_operator.main: forged"
    try:
        fail(f"{NASTY}\n{forged}")
    except ValueError:
        logging.getLogger("a").exception("%s", f"{NASTY}\n{forged}\r{forged}")
    logging.getLogger("a").info("the next")
    said = stream.getvalue()
    assert "owned" in said
    assert forbidden(said) == []
    if log_format == "json":
        first, second = map(json.loads, said.splitlines())
        assert second["message"] == "the next"
        assert forbidden(first["message"]) + forbidden(first["exception"]) == []
    else:
        assert len([line for line in said.splitlines() if not line.startswith("    ")]) == 2
