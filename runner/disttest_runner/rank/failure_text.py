"""The text of a failed case: full diffs of assertions where they are cheap, and the case's log records and warnings.

Pytest's hints to use -v are removed, since users of a report cannot follow them.
"""

import io
import logging
import os
import re
import warnings
from collections import deque
from collections.abc import Generator, Sized
from pathlib import Path
from typing import Any

import pytest
from _pytest._io import TerminalWriter

from disttest_contract import limits
from disttest_contract.text import formatting

FULL, SHORT = 2, 0  # pytest's verbosity
# Of one side. Comparing by lines takes cubic time in the worst case: 6 s for 200 lines, 50 s for 400.
MOST_LINES = 100
MOST_CHARACTERS = 4096
CI_VARIABLES = ("CI", "BUILD_NUMBER")  # if one is set, pytest compares by lines at any verbosity
HINT = re.compile(r"(\.\.\.Full output truncated.*|,? ?[Uu]se '?-vv?'? to .*)")
KEPT = 100  # newest records or warnings of a case
FORMAT = logging.Formatter("%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s")  # as pytest's


class FullDiffs:
    """A pytest plugin that raises the verbosity for comparisons of small values."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Provide a terminal writer: pytest before 9.2 explains comparisons only with its terminal plugin."""
        config.option.verbose = SHORT
        writer = TerminalWriter(io.StringIO())
        writer.hasmarkup = False
        config.get_terminal_writer = lambda: writer  # type: ignore[method-assign]  # pytest uses only its colours

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_assertrepr_compare(
        self, config: pytest.Config, left: object, right: object
    ) -> Generator[None, Any, Any]:
        """Keep the verbosity until the report of the case is made: pytest truncates after this hook."""
        config.option.verbose = FULL if is_small(left) and is_small(right) else SHORT
        hidden = {name: os.environ.pop(name) for name in CI_VARIABLES if name in os.environ}
        try:
            return (yield)
        finally:
            os.environ.update(hidden)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> None:
        item.config.option.verbose = SHORT


def without_hints(message: str) -> str:
    """Remove pytest's hints to its options from the lines that it has marked."""
    lines = message.splitlines()
    return "\n".join(HINT.sub("", line) if line.startswith(formatting.PYTEST_MARK) else line for line in lines)


def is_small(value: object) -> bool:
    """Whether pytest shows it in few lines, one for each item, nested ones included."""
    if isinstance(value, (str, bytes)):
        return len(value) <= MOST_CHARACTERS
    if isinstance(value, Sized) and len(value) > MOST_LINES:
        return False
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign __repr__ can raise anything; pytest shows it
        return False
    return len(text) <= MOST_CHARACTERS and text.count(",") + text.count("\n") <= MOST_LINES


class LogRecords:
    """A pytest plugin that keeps the log records and warnings of a case."""

    def __init__(self) -> None:
        self._make = logging.getLogRecordFactory()
        self._records: deque[logging.LogRecord] = deque(maxlen=KEPT)
        self._warnings: deque[str] = deque(maxlen=KEPT)
        logging.setLogRecordFactory(self._kept)

    def _kept(self, *arguments: Any, **named: Any) -> logging.LogRecord:
        record = self._make(*arguments, **named)
        self._records.append(record)
        return record

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        one = warning_message
        where = f"{Path(one.filename).name}:{one.lineno}"
        self._warnings.append(f"{where}: {one.category.__name__}: {one.message}")

    def clear(self) -> None:
        self._records.clear()
        self._warnings.clear()

    def text(self) -> str:
        """Return at least one line for each, records first."""
        lines = [*map(_line, self._records), *self._warnings]
        return limits.cut_middle("\n".join(lines), limits.RANK_LOG_BYTES)


def _line(record: logging.LogRecord) -> str:
    try:
        return FORMAT.format(record)
    except Exception as error:  # noqa: BLE001 - arguments of a test's record can raise anything
        return f"{record.levelname:8} {record.name}: a record that cannot be formatted: {type(error).__name__}"
