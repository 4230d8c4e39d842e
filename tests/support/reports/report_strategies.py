"""Unexpected reports for readers and views: changed copies of a sample with all fields."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

from disttest_contract.results.report import InvalidReportError, Report
from tests.support.builders import strategies
from tests.support.reports import report_samples
from tests.support.reports.hostile import NASTY

RAW: dict[str, Any] = json.loads(report_samples.each(trimmed="x", at_fault=(1,)).dumps())
SAMPLE = Report.loads(json.dumps(RAW).encode())
CLOSED = frozenset({"schema", "outcome", "verdict", "reason", "ending"})  # another word would be refused
TEXTS = strategies.texts | st.sampled_from((NASTY, "0-3", "9-1", "Passed", "float32"))
NUMBERS = st.integers(-(10**18), 10**18) | st.floats(-1e18, 1e18)


def _leaves() -> list[tuple[tuple[str | int, ...], st.SearchStrategy[Any]]]:
    """Places of texts and numbers, and their possible values."""
    found: list[tuple[tuple[str | int, ...], st.SearchStrategy[Any]]] = []
    for path in strategies.paths(RAW):
        value: Any = RAW
        for key in path:
            value = value[key]
        if isinstance(value, str) and path[-1] not in CLOSED:
            found.append((path, TEXTS))
        elif isinstance(value, int | float) and not isinstance(value, bool) and path[-1] not in CLOSED:
            found.append((path, NUMBERS))
    return found


LEAVES = _leaves()

# With any JSON value in any of its fields; most are refused.
documents = strategies.spoiled(RAW)


def readable(document: Any) -> Report | None:
    """None for what is refused; whatever else goes wrong comes through."""
    try:
        return Report.loads(strategies.as_bytes(document))
    except InvalidReportError:
        return None


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """That can be read, whatever they say."""
    document: Any = copy.deepcopy(RAW)
    for (*way, last), values in draw(st.lists(st.sampled_from(LEAVES), max_size=12)):
        inside = document
        for key in way:
            inside = inside[key]
        inside[last] = draw(values)
    return readable(document) or SAMPLE
