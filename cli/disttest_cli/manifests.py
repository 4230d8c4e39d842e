"""DistTests from a YAML file, held to the rules of the API server."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from disttest_cli.errors import UsageError
from disttest_contract import suites
from disttest_operator.core import parse
from disttest_operator.core.model import Defaults, DistTest

NO_IMAGE = "none"  # nothing is pulled: the runner is this installation
DEFAULTS = Defaults(image=NO_IMAGE)

ConfigMaps = Mapping[tuple[str, str], Mapping[str, Any]]  # (namespace, name) -> body


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """`config_maps` are those next to the DistTests, which may name them."""

    tests: tuple[DistTest, ...]
    config_maps: ConfigMaps = field(default_factory=dict)


def read(filename: str, *, defaults: Defaults = DEFAULTS, namespace: str = "") -> Documents:
    """Raises UsageError with one line for the first document that is wrong, and where.

    `namespace` is for documents that name none; another one than theirs is refused.
    """
    tests, config_maps = [], {}
    documents = [document for document in load(filename) if document is not None]
    for number, document in enumerate(documents, start=1):
        if namespace:
            _place(document, namespace, f"{filename}, document {number}")
        if isinstance(document, dict) and document.get("kind") == "ConfigMap":
            config_maps[_key_of_config_map(document, filename, number)] = document
        else:
            tests.append(parse_test(document, f"{filename}, document {number}", defaults))
    if not tests:
        raise UsageError(f"{filename} holds no DistTest")
    return Documents(tests=tuple(tests), config_maps=config_maps)


def _key_of_config_map(body: dict[str, Any], filename: str, number: int) -> tuple[str, str]:
    metadata, data = body.get("metadata"), body.get("data") or {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not isinstance(data, dict):
        raise UsageError(f"{filename}, document {number}: a ConfigMap needs metadata.name, and data that is a mapping")
    return str(metadata.get("namespace", "default")), metadata["name"]


def known_suites() -> str:
    return suites.known()


def load(filename: str) -> list[Any]:
    """The documents of a file, or of standard input, as they stand there."""
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text()
        return list(yaml.safe_load_all(text))
    except OSError as error:
        raise UsageError(f"{filename} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{filename} is not text: {error.reason}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error


def _place(document: Any, namespace: str, where: str) -> None:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if isinstance(metadata, dict) and metadata.setdefault("namespace", namespace) != namespace:
        raise UsageError(
            f"{where} says namespace {metadata['namespace']!r} and --namespace says {namespace!r}: leave one away"
        )


def parse_test(document: Any, where: str, defaults: Defaults = DEFAULTS) -> DistTest:
    """`where` begins the sentence on what is wrong."""
    try:
        return parse.parse(document, defaults)
    except parse.InvalidSpecError as error:
        raise UsageError(f"{where}: {'; '.join(error.problems)}") from error
