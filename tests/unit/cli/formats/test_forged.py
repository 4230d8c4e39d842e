"""Forged reports: each report that can be read can be shown in every format."""

import json
import random
import unicodedata
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from disttest_cli.formats import markdown
from disttest_cli.formats.subject import Subject
from disttest_cli.views import outputs
from disttest_contract import limits
from disttest_contract.results.report import InvalidReportError, Report
from tests.support.reports import report_samples as samples

NUMBERS = (-1, -(10**6), 0, 1, -limits.NUMBER, limits.NUMBER, 1e18, -1e18, 5e-324, 0.1)
TEXTS = (*samples.NASTY, "Passed", "0-3", "9-1", "float32", "all_reduce")
RAW: dict[str, Any] = json.loads(samples.each(trimmed="x", at_fault=(1,)).dumps())
BAD = frozenset({"Cc", "Cf", "Cs"})  # what steers, hides or is half a character


def forged(value: Any, dice: random.Random, share: float) -> Any:
    """A part of its numbers and texts are others."""
    if isinstance(value, dict):
        return {key: one if key == "schema" else forged(one, dice, share) for key, one in value.items()}
    if isinstance(value, list):
        return [forged(one, dice, share) for one in value for _ in range(dice.choice((1, 1, 1, 1, 1, 0, 2)))]
    if dice.random() > share or value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return dice.choice(TEXTS)
    return dice.choice(NUMBERS)


def readable(seed: int) -> Report | None:
    dice = random.Random(seed)  # noqa: S311  # the same each time
    try:
        return Report.loads(json.dumps(forged(RAW, dice, dice.choice((0.005, 0.02)))).encode())
    except InvalidReportError:
        return None


REPORTS = {seed: report for seed in range(300) if (report := readable(seed))}


def test_some_of_them_can_be_read() -> None:
    assert len(REPORTS) > 30


@pytest.mark.parametrize("name", outputs.FORMATS)
def test_what_can_be_read_can_be_shown(name: str) -> None:
    for report in REPORTS.values():
        text = outputs.render_report(Subject(report=report), name, limit_bytes=markdown.LEAST_BYTES)
        text.encode()
        match name:
            case "junit":
                ET.fromstring(text)  # noqa: S314  # our own
            case "json" | "ctrf":
                json.loads(text, parse_constant=pytest.fail)
            case "markdown":
                assert len(text.encode()) <= markdown.LEAST_BYTES
            case _:
                assert not [one for one in set(text) if unicodedata.category(one) in BAD and one not in "\n\t"]
