"""How the operator's log looks: kopf's, aiohttp's and our own lines alike, all on standard error."""

import json
import logging
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

from disttest_contract.text import escaping

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
CHATTY = ("kopf", "aiohttp", "kubernetes")  # what they tell at info is about themselves

log = logging.getLogger(__name__)


class TextFormatter(logging.Formatter):
    """A line each; what goes on below it is indented, so that nobody's name or message can begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return escaping.block(super().format(record)).replace("\n", "\n    ")


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, and exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:  # type: ignore[explicit-override]  # typing.override came with 3.12
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": escaping.block(record.getMessage()),
        }
        exception = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
        if words := "\n".join(filter(None, (exception, record.stack_info))):
            said["exception"] = escaping.block(words)
        return json.dumps(said, ensure_ascii=False)


def set_up(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """For the whole process, warnings and what ends it included."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("the operator ends", exc_info=(kind, error, trace))
