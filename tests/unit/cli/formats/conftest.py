"""Golden files: what formats make of reports is compared with what people have read."""

import difflib
from collections.abc import Callable

import pytest

from tests.support.paths import TESTS

GOLDEN = TESTS / "data" / "reports"

Matches = Callable[[str, str], None]


@pytest.fixture
def matches(updates_golden: bool) -> Matches:  # noqa: FBT001  # a fixture
    """matches(text, "each.xml") fails with a diff; run this folder with --update-golden to accept what is new."""

    def compare(made: str, name: str) -> None:
        path = GOLDEN / name
        if updates_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made, encoding="utf-8")
        golden = path.read_text(encoding="utf-8") if path.exists() else ""
        diff = "".join(difflib.unified_diff(golden.splitlines(True), made.splitlines(True), name, "made"))
        assert not diff, f"{name} differs; if that is meant, run this folder with --update-golden\n{diff}"

    return compare
