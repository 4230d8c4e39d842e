"""DistTests from a YAML file, validated like by the API server, and the files that they refer to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from disttest_cli.errors import UsageError
from disttest_cli.input import files
from disttest_cli.lazy import yaml
from disttest_contract.gang import quarantine
from disttest_operator.core.api import parse
from disttest_operator.core.api.model import Defaults, DistTest

FILE_BYTES = 4 << 20
VALUES = 200_000
NO_IMAGE = "none"  # local runs use this installation
DEFAULTS = Defaults(image=NO_IMAGE)

ConfigMaps = Mapping[tuple[str, str], Mapping[str, Any]]  # (namespace, name) -> body


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """`config_maps` are those in the same file, which the DistTests may name."""

    tests: tuple[DistTest, ...]
    config_maps: ConfigMaps = field(default_factory=dict)


def read(filename: str, *, defaults: Defaults = DEFAULTS, namespace: str = "") -> Documents:
    """`namespace` is for documents without one, and must not contradict the others.

    Raises UsageError for the first invalid document.
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
        raise UsageError(f"{filename} contains no DistTest")
    return Documents(tests=tuple(tests), config_maps=config_maps)


def _key_of_config_map(body: dict[str, Any], filename: str, number: int) -> tuple[str, str]:
    metadata, data = body.get("metadata"), body.get("data") or {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not isinstance(data, dict):
        raise UsageError(f"{filename}, document {number}: a ConfigMap needs metadata.name, and data must be a mapping")
    return str(metadata.get("namespace", "default")), metadata["name"]


def load(filename: str) -> list[Any]:
    """The documents of a file or of standard input, not validated."""
    try:
        raw = files.read(filename, FILE_BYTES)
        if len(raw) > FILE_BYTES:
            raise UsageError(
                f"{filename} is larger than {FILE_BYTES} bytes. A cluster rejects objects of half that size."
            )
        documents = list(yaml.safe_load_all(raw.decode()))
    except OSError as error:
        raise UsageError(f"{filename} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{filename} is not text: {error.reason}") from error
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error
    if problem := _oddity(documents):
        raise UsageError(f"{filename}: {problem}")
    return documents


def _oddity(documents: list[Any]) -> str:
    """Find values that JSON cannot represent, or only at a huge size: aliases can expand to billions of values."""
    todo, seen = list(documents), 0
    while todo:
        value = todo.pop()
        seen += 1
        if seen + len(todo) > VALUES:
            return f"more than {VALUES} values after its aliases are expanded. Remove the aliases."
        if isinstance(value, dict):
            if odd := [key for key in value if not isinstance(key, str)]:
                return f"the key {odd[0]!r} is not a string. Write it in quotes."
            todo += value.values()
        elif isinstance(value, list | tuple | set):
            todo += value
    return ""


def _place(document: Any, namespace: str, where: str) -> None:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if isinstance(metadata, dict) and metadata.setdefault("namespace", namespace) != namespace:
        raise UsageError(
            f"{where}: the namespace is {metadata['namespace']!r}, but --namespace is {namespace!r}. Remove one."
        )


def parse_test(document: Any, where: str, defaults: Defaults = DEFAULTS) -> DistTest:
    """`where` is the prefix of the error message. Raises UsageError."""
    try:
        return parse.parse(document, defaults)
    except parse.InvalidSpecError as error:
        raise UsageError(f"{where}: {'; '.join(error.problems)}") from error


def find_quarantine(test: DistTest, config_maps: ConfigMaps, folders: Mapping[str, str]) -> quarantine.Lists:
    """Read the quarantine from the folder given for its ConfigMap, or from the ConfigMap in the file."""
    name = test.spec.quarantine.config_map
    if not name:
        return quarantine.NOTHING
    try:
        body = _folder(Path(folders[name])) if name in folders else config_maps[test.namespace, name]
        return quarantine.read(body, [suite.name for suite in test.spec.suites])
    except KeyError as error:
        raise UsageError(
            f"{test.name}: ConfigMap {name!r} of spec.quarantine is missing. "
            f"Add it to the file of the DistTest, or use --files {name}=DIR."
        ) from error
    except (quarantine.InvalidListError, OSError) as error:
        raise UsageError(f"{test.name}: spec.quarantine: ConfigMap {name!r}: {error}") from error


def _folder(folder: Path) -> dict[str, Any]:
    """The ConfigMap that `kubectl create configmap --from-file` would create."""
    body: dict[str, dict[str, str]] = {"data": {}, "binaryData": {}}
    for file in sorted(folder.iterdir()):
        if file.is_file():
            try:
                body["data"][file.name] = file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                body["binaryData"][file.name] = ""
    return body
