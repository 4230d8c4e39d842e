"""The list of known failures, where there is no cluster to ask for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from disttest_cli.errors import UsageError
from disttest_cli.manifests import ConfigMaps
from disttest_contract import quarantine
from disttest_operator.core.model import DistTest


def find(test: DistTest, config_maps: ConfigMaps, folders: Mapping[str, str]) -> quarantine.Lists:
    """From the folder that stands for the ConfigMap, or from the ConfigMap next to the DistTest."""
    name = test.spec.quarantine.config_map
    if not name:
        return quarantine.NOTHING
    try:
        body = _folder(Path(folders[name])) if name in folders else config_maps[test.namespace, name]
        return quarantine.read(body, [suite.name for suite in test.spec.suites])
    except KeyError as error:
        raise UsageError(
            f"{test.name}: spec.quarantine names the ConfigMap {name!r}, which is not here: "
            f"put it into the file of the DistTest, or say --files {name}=DIR"
        ) from error
    except (quarantine.InvalidListError, OSError) as error:
        raise UsageError(f"{test.name}: spec.quarantine: ConfigMap {name!r}: {error}") from error


def _folder(folder: Path) -> dict[str, Any]:
    """As `kubectl create configmap --from-file` would make it."""
    body: dict[str, dict[str, str]] = {"data": {}, "binaryData": {}}
    for file in sorted(folder.iterdir()):
        if file.is_file():
            try:
                body["data"][file.name] = file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                body["binaryData"][file.name] = ""
    return body
