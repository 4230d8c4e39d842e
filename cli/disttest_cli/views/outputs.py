"""`-o FORMAT` and `-o FORMAT=FILE`: parse options, render a report in a format, write files."""

import importlib
import math
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from disttest_cli.errors import UsageError
from disttest_cli.formats import documents, markdown, table
from disttest_cli.formats.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    format: str
    path: Path | None = None


def parse(values: Sequence[str], formats: Sequence[str], *, default: str) -> list[Output]:
    """Raises UsageError for unknown formats, and for two formats with the same file."""
    outputs = [_parse(value, formats) for value in values] or [Output(format=default)]
    places = [os.path.realpath(output.path) if output.path else "standard output" for output in outputs]
    doubled = next((place for place in places if places.count(place) > 1), None)
    if doubled:
        raise UsageError(
            f"two formats are written to {doubled}. Use -o FORMAT=FILE with a different file for each format."
        )
    return outputs


def _parse(value: str, formats: Sequence[str]) -> Output:
    name, equals, file = value.partition("=")
    if name not in formats:
        raise UsageError(f"-o {value}: format {name!r} is unknown. Use one of {', '.join(formats)}.")
    if equals and not file:
        raise UsageError(f"-o {value} names no file. Add one, or use -o {name} for standard output.")
    return Output(format=name, path=Path(file) if file else None)


def write(path: Path, text: str) -> None:
    """Write a file atomically. Raises UsageError."""
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():  # a device or a pipe
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}. Name another file.") from error


def _replace(target: Path, text: str) -> None:
    new = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with new.open("x", encoding="utf-8") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, new)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


TEXT = "text"
FORMATS = (TEXT, "json", "junit", "ctrf", "html", "markdown")


def render_report(subject: Subject, name: str, *, limit_bytes: int = markdown.DEFAULT_BYTES) -> str:
    """Render in one of FORMATS; `limit_bytes` is for Markdown. Raises UsageError."""
    match name:
        case "text":
            return table.render_report(subject.report, subject.report.thresholds)
        case "json":
            return documents.as_json(_finite(subject.report.to_json()), indent=2)
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
            f"format {name} needs the Python package {error.name!r}, which is not installed. Install disttest[cli]."
        ) from error


def _finite(value: Any) -> Any:
    """Replace infinity and NaN of forged reports, which JSON does not have, by 0."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return 0 if isinstance(value, float) and not math.isfinite(value) else value
