"""The source of a suite's cases: its files, the arguments for pytest, and the torch version that files are for."""

import dataclasses
import importlib.util
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from disttest_contract.gang import suites
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.results.report import SuiteResult

CONFIGURATIONS = ("pytest.ini", "pyproject.toml")
# Disables settings that fail in a rank, which has no terminal and loads no plugins of the environment.
OVERRIDES = (
    *("-o", "addopts=", "-o", "required_plugins="),
    *("-W", "ignore:Unknown config option:pytest.PytestConfigWarning"),  # options of plugins, if warnings are errors
)
REVISION = re.compile(r"[0-9a-f]{7,40}")


class SourceError(Exception):
    """The suite's files do not exist."""


def pytest_arguments(suite: SuitePlan) -> list[str]:
    """Return pytest's arguments. The folder is the root, so ids do not depend on its path, except in a repository."""
    return [*(["-k", suite.select] if suite.select else []), *_arguments(suite)]


def _arguments(suite: SuitePlan) -> list[str]:
    if suite.builtin:
        return _builtin(suite.builtin)
    if suite.root:
        return _files(Path(suite.root), suite.files)
    folder = Path(suite.directory)
    targets = [str(folder / name) for name in suite.files] or [str(folder)]
    if suite.in_repository:
        return [*OVERRIDES, *targets]
    own = next((folder / name for name in CONFIGURATIONS if (folder / name).is_file()), Path(os.devnull))
    where = [f"--rootdir={folder}", f"--confcutdir={folder}", "-c", str(own), *OVERRIDES]
    return [*where, *targets]


def _builtin(name: str) -> list[str]:
    spec = importlib.util.find_spec(suites.BUILTIN[name])
    if spec is None or spec.origin is None:
        raise SourceError(f"the module of the built-in suite {name!r} is not installed")
    file = Path(spec.origin)
    if file.name == "__init__.py":  # a suite of several files
        return [f"--rootdir={file.parent}", "-c", os.devnull, "-o", "python_files=*.py", str(file.parent)]
    return [f"--rootdir={file.parent}", "-c", os.devnull, str(file)]


def _files(root: Path, patterns: Sequence[str]) -> list[str]:
    """Ignore the tree's pytest.ini: torch's requires plugins that runners do not have."""
    files = find(root, patterns)
    mode = import_mode(files)
    where = [f"--rootdir={root}", f"--confcutdir={root}", f"--import-mode={mode}", "-c", os.devnull]
    return [*where, *map(str, files)]


def find(root: Path, patterns: Sequence[str]) -> list[Path]:
    """Return files in the order of the patterns. Raises SourceError if one matches nothing, so no test is missed."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        files = sorted(path for path in root.glob(pattern) if path.is_file())
        if not files:
            raise SourceError(
                f"no file below {root} matches {pattern!r}. Check that the image contains the tests in this directory"
            )
        found |= dict.fromkeys(files)
    return list(found)


def import_mode(files: Iterable[Path]) -> str:
    """Prefer `prepend`: torch's files import each other by name. Files with equal names need `importlib`."""
    names = Counter(file.name for file in files if not (file.parent / "__init__.py").exists())
    return "importlib" if any(count > 1 for count in names.values()) else "prepend"


def tree_revision(root: Path) -> str:
    """Return the commit of a source tree from Git, else the version from torch's version.txt; empty if unknown."""
    head = _line(root / ".git" / "HEAD")
    if head.startswith("ref: "):
        head = _line(root / ".git" / head.removeprefix("ref: "))
    return head or _line(root / "version.txt")


def _line(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def warned(result: SuiteResult, suite: SuitePlan, versions: Mapping[str, str]) -> SuiteResult:
    if not suite.root:
        return result
    warning = mismatch(
        tree_revision(Path(suite.root)), torch=versions.get("torch", ""), git=versions.get("torch_git", "")
    )
    return dataclasses.replace(result, message=f"{result.message}; {warning}") if warning else result


def mismatch(revision: str, *, torch: str, git: str) -> str:
    """Return a sentence if `revision` (a commit or a version) is not the installed torch; empty if it fits."""
    if not revision:
        return ""
    if REVISION.fullmatch(revision):
        fits = not git or git.startswith(revision) or revision.startswith(git)
        here = git
    else:
        fits, here = _release(revision) == _release(torch), torch
    return (
        ""
        if fits
        else f"the test files are for torch {revision}, but torch {here} is installed, which can cause failures"
    )


def _release(version: str) -> str:
    """`2.13` for both `2.13.0a0+git1234` and `2.13.0+cu130`."""
    return ".".join(re.findall(r"\d+", version.partition("+")[0])[:2])
