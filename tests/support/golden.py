"""Compares generated text with reviewed golden files."""

import difflib

from tests.support.paths import TESTS

GOLDEN = TESTS / "data" / "cli"


def check(made: str, name: str, *, updates: bool) -> None:
    """Fails with a diff; with --update-golden what is new is accepted."""
    path = GOLDEN / name
    if updates:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made)
    golden = path.read_text() if path.exists() else ""
    diff = "".join(difflib.unified_diff(golden.splitlines(keepends=True), made.splitlines(keepends=True), name, "made"))
    assert not diff, f"{name} differs; if that is meant, run its test with --update-golden\n{diff}"
