"""Test files that README and docs show, run as a reader would: the documented output is what a reader sees."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.paths import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\d+\.\d+ s\b|(?<= )\d+\.\d+$", re.MULTILINE)
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page with test files, how a reader runs them, and the output that the page shows."""

    name: str
    arguments: tuple[str, ...] = ("--ranks", "2")
    replace: tuple[str, str] = ("", "")
    exit_code: int = 0
    output: str = "Passed (AllCasesPassed): 1 of 1 cases passed"  # or the start of a block of the page


RUNS = (
    Page(name="README.md"),
    Page(name="getting-started.md", output="SUITE      VERDICT"),
    Page(name="getting-started.md", replace=("==", "!="), exit_code=10, output="test-mine: test_mine.py::test_sum:"),
    Page(name="own-tests.md"),
    Page(name="collectives.md", output="all_reduce"),
    Page(
        name="hangs.md",
        arguments=("--ranks", "3", "--backend", "gloo", "--case-timeout", "5"),
        exit_code=10,
        output="ranks 0, 2 wait in all_reduce number 1",
    ),
)


def blocks(name: str) -> list[tuple[str, str]]:
    """Return language and text of each fenced block of the page."""
    return BLOCK.findall(next(page for page in PAGES if page.name == name).read_text())


def sources(name: str) -> list[str]:
    return [text for language, text in blocks(name) if language == "python" and "def test_" in text]


def documented(page: Page) -> list[str]:
    """The lines that a reader is to see."""
    shown = next((text for _, text in blocks(page.name) if text.startswith(page.output)), page.output)
    return [line.strip() for line in shown.splitlines() if line.strip() != ELLIPSIS]


def test_every_page_with_a_test_file_is_run() -> None:
    assert {page.name for page in PAGES if sources(page.name)} == {page.name for page in RUNS}


@pytest.mark.parametrize("page", RUNS, ids=lambda page: f"{page.name}-{page.exit_code}")
def test_the_test_file_of_a_page_ends_as_the_page_says(page: Page, tmp_path: Path) -> None:
    (source,) = sources(page.name)
    named = re.match(r"# (test_\w+\.py)$", source, re.MULTILINE)
    file = named[1] if named else "test_mine.py"
    (tmp_path / file).write_text(source.replace(*page.replace))
    done = subprocess.run(
        [sys.executable, "-m", "disttest_cli.main", "run", file, *page.arguments],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience.stretched(120),
        check=False,
    )
    assert done.returncode == page.exit_code, done.stdout
    seen = " ".join(SECONDS.sub("0.0 s", done.stdout).split())
    for line in documented(page):
        assert " ".join(SECONDS.sub("0.0 s", line).split()) in seen, done.stdout
