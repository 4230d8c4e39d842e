"""DistTests from a YAML file, held to the rules of the API server."""

import sys
from pathlib import Path
from typing import Any

import yaml

from disttest_cli.errors import UsageError
from disttest_contract import suites
from disttest_operator.core import parse
from disttest_operator.core.model import Defaults, DistTest

NO_IMAGE = "none"  # nothing is pulled: the runner is this installation


def read(filename: str) -> list[DistTest]:
    """Raises UsageError with one line for the first document that is wrong, and where."""
    documents = [document for document in _load(filename) if document is not None]
    if not documents:
        raise UsageError(f"{filename} holds no DistTest")
    return [_parse(document, filename, number) for number, document in enumerate(documents, start=1)]


def known_suites() -> str:
    return suites.known()


def _load(filename: str) -> list[Any]:
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text()
        return list(yaml.safe_load_all(text))
    except OSError as error:
        raise UsageError(f"{filename} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{filename} is not text: {error.reason}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error


def _parse(document: Any, filename: str, number: int) -> DistTest:
    try:
        return parse.parse(document, Defaults(image=NO_IMAGE))
    except parse.InvalidSpecError as error:
        raise UsageError(f"{filename}, document {number}: {'; '.join(error.problems)}") from error
