"""The format of the operator's log on standard error, including records of kopf and aiohttp."""

import json
import logging
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

from disttest_contract.text import escaping

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
CHATTY = ("kopf", "aiohttp", "kubernetes")  # their info messages do not concern runs

log = logging.getLogger(__name__)


class TextFormatter(logging.Formatter):
    """One record per line; further lines are indented, so that no name or message can forge a record."""

    def format(self, record: logging.LogRecord) -> str:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return escaping.block(super().format(record)).replace("\n", "\n    ")


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, and the exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:  # type: ignore[explicit-override]  # typing.override came with 3.12
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": escaping.block(record.getMessage()),
        }
        exception = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
        if text := "\n".join(filter(None, (exception, record.stack_info))):
            entry["exception"] = escaping.block(text)
        return json.dumps(entry, ensure_ascii=False)


def set_up(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Set up logging of the process, including warnings and uncaught exceptions."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("the operator stops because of an uncaught exception", exc_info=(kind, error, trace))
