"""Golden files: what the functions make is compared with YAML that people have read."""

import copy
import difflib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from tests.support.paths import TESTS

GOLDEN = TESTS / "data" / "golden"

Matches = Callable[[Mapping[str, Any], str], None]


@pytest.fixture
def matches(updates_golden: bool) -> Matches:  # noqa: FBT001  # a fixture
    """matches(manifest, "job.yaml") fails with a diff; run this folder with --update-golden to accept what is new."""

    def compare(manifest: Mapping[str, Any], name: str) -> None:
        made = yaml.safe_dump(copy.deepcopy(dict(manifest)), sort_keys=False, width=120)
        path = GOLDEN / name
        if updates_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made)
        golden = path.read_text() if path.exists() else ""
        diff = "".join(difflib.unified_diff(golden.splitlines(True), made.splitlines(True), name, "made"))
        assert not diff, f"{name} differs; if that is meant, run this folder with --update-golden\n{diff}"

    return compare
