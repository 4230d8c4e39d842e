"""Pages for developers name files, folders and modules that exist."""

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from disttest_contract.gang import suites
from tests.support.paths import ROOT

PAGES = ("CONTRIBUTING.md", *(str(page.relative_to(ROOT)) for page in (ROOT / "docs/development").rglob("*.md")))
TOPS = ("bench", "cli", "devcluster", "docs", "manifests", "operator", "runner", "tests", "tools")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?!/|disttest\.dev/)[\w./*-]+")  # no absolute paths, URLs or labels
FILE = re.compile(r"[\w*-]+\.(?:py|md|yaml|json|toml|txt)")


def paths(text: str) -> Iterator[str]:
    """Paths and file names in backticks, also as an argument of a command; fenced blocks are not read."""
    for quoted in re.findall(r"`([^`]+)`", FENCED.sub("", text)):
        for word in quoted.split():
            if PATH.fullmatch(word) and ("/" in word.rstrip("/") or FILE.fullmatch(word)):
                yield word


@cache
def names() -> frozenset[str]:
    """Names of all source files and folders."""
    found = [*ROOT.iterdir(), *(path for top in TOPS for path in (ROOT / top).rglob("*"))]
    return frozenset(path.name for path in found)


def exists(path: str, *, page: Path) -> bool:
    """A name without a folder may be anywhere; a path starts at the root or at the page's folder."""
    if "/" not in path and "*" not in path:
        return path in names()
    return any(any(folder.glob(path)) for folder in (ROOT, page.parent))


@pytest.mark.parametrize("page", PAGES)
def test_every_path_in_backticks_exists(page: str) -> None:
    named = {path.rstrip("/") for path in paths((ROOT / page).read_text())}
    assert named, f"{page} names no file"
    assert [path for path in sorted(named) if not exists(path, page=ROOT / page)] == []


PACKAGES = ("runner/disttest_contract", "runner/disttest_runner", "operator/disttest_operator", "cli/disttest_cli")


def test_the_table_of_folders_has_every_folder_of_the_product() -> None:
    named = set(paths((ROOT / "docs/development/README.md").read_text()))
    tops = [ROOT / package for package in (*PACKAGES, "operator/disttest_operator/core")]
    folders = {str(file.parent.relative_to(ROOT)) for top in tops for file in top.glob("*/__init__.py")}
    assert sorted(folders - named) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_is_to_be_run_exists(page: str) -> None:
    modules = set(re.findall(r"python -m ([\w.]+)", (ROOT / page).read_text()))
    assert [name for name in sorted(modules) if importlib.util.find_spec(name) is None] == []


def test_words_that_are_no_paths_are_ignored() -> None:
    text = "`make check`, `python -m tools.docs`, `main.COMMANDS`, `a/b.py`, `pytest x/y.py --z`, `c.py`"
    assert list(paths(text)) == ["a/b.py", "x/y.py", "c.py"]


SEEN_ON = ("stub", "fake driver", "gloo", "GPU")
NOT_SEEN = "not seen"


def claims(text: str) -> list[tuple[str, str, str]]:
    """The rows of the page about GPUs: claim, on what it was seen, the file that shows it."""
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]
    return [(claim, seen, test.strip("`")) for claim, seen, test in rows[2:]]


def false_claims(rows: list[tuple[str, str, str]]) -> list[str]:
    """Claims that do not name one of these words and a test that exists, and are not marked as not seen."""
    return [
        claim
        for claim, seen, test in rows
        if not (seen in SEEN_ON and test.startswith("tests/") and (ROOT / test).is_file())
        and (seen, test) != (NOT_SEEN, "")
    ]


def test_every_claim_about_gpus_names_on_what_and_where_it_was_seen() -> None:
    rows = claims((ROOT / "docs/development/nccl.md").read_text())
    assert false_claims(rows) == []
    assert {f"Suite `{name}`" for name in suites.BUILTIN} <= {claim for claim, _, _ in rows}
    assert [word for word in SEEN_ON if f"- {word}: " not in (ROOT / "docs/development/nccl.md").read_text()] == []


def test_a_claim_without_a_test_or_of_another_word_is_false() -> None:
    file = "tests/unit/tools/docs/test_contributing.py"
    rows = [("a", "GPU", file), ("b", "not seen", ""), ("c", "cluster", file), ("d", "stub", "tests/none.py")]
    assert false_claims([*rows, ("e", "gloo", ""), ("f", "not seen", file)]) == ["c", "d", "e", "f"]
