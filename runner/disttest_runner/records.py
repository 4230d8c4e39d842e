"""Log records and warnings of a case, for the report of one that fails.

Records are seen where they are made: a handler of ours at the root logger would keep those of a case from standard
error, where Python shows warnings of programs that have no handler.
"""

import logging
import warnings
from collections import deque
from pathlib import Path
from typing import Any

from disttest_contract import limits

KEPT = 100  # the newest of a case
FORMAT = logging.Formatter("%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s")  # as pytest's


class Records:
    """A pytest plugin."""

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
        """Before a case."""
        self._records.clear()
        self._warnings.clear()

    def text(self) -> str:
        """A line or more for each, records first."""
        lines = [*map(_line, self._records), *self._warnings]
        return limits.cut_middle("\n".join(lines), limits.RANK_LOG_BYTES)


def _line(record: logging.LogRecord) -> str:
    try:
        return FORMAT.format(record)
    except Exception as error:  # noqa: BLE001 - what the arguments of a test's record do when they become a text
        return f"{record.levelname:8} {record.name}: a record that cannot be formatted: {type(error).__name__}"
