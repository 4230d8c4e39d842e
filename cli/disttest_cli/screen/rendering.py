"""The formats of a report by their names. Each is imported when it is asked for."""

import importlib
import math
from types import ModuleType
from typing import Any

from disttest_cli import documents
from disttest_cli.errors import UsageError
from disttest_cli.formats import markdown, table
from disttest_cli.formats.subject import Subject

TEXT = "text"
FORMATS = (TEXT, "json", "junit", "ctrf", "html", "markdown")


def render(subject: Subject, name: str, *, limit_bytes: int = markdown.DEFAULT_BYTES) -> str:
    """One of FORMATS; `limit_bytes` is for Markdown."""
    match name:
        case "text":
            return table.render_report(subject.report, subject.report.thresholds)
        case "json":
            return _json(subject)
        case "markdown":
            return markdown.render(subject, limit_bytes)
        case _:
            text: str = _module(name).render(subject)
            return text


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"disttest_cli.formats.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the format {name} needs the Python package {error.name!r}, which is not here: install disttest[cli]"
        ) from error


def _json(subject: Subject) -> str:
    """Whole: it can be read back."""
    return documents.as_json(_finite(subject.report.to_json()), indent=2)


def _finite(value: Any) -> Any:
    """JSON has no word for a number that is none, as only a forged report holds it."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return 0 if isinstance(value, float) and not math.isfinite(value) else value
