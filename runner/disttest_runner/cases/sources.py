"""Where a suite's cases come from: arguments for pytest, modules worth importing early, and which torch files are for.

Standard library only: agents read it too.
"""

import dataclasses
import importlib.util
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from disttest_contract.gang import suites
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.results.report import SuiteResult

if TYPE_CHECKING:
    from disttest_runner.cases.rank_orders import RankOrder

CONFIGURATIONS = ("pytest.ini", "pyproject.toml")
# What a configuration may say and a rank cannot follow: it has no terminal and loads no plugins of the environment.
OVERRIDES = (
    *("-o", "addopts=", "-o", "required_plugins="),
    *("-W", "ignore:Unknown config option:pytest.PytestConfigWarning"),  # those of plugins, where warnings are errors
)


class SourceError(Exception):
    """The suite's files are not where it says."""


def pytest_arguments(order: "RankOrder") -> list[str]:
    """The root is the folder itself, so that ids are the same wherever it lies; in a repository pytest looks for it."""
    if order.builtin:
        return [*_select(order.select), *_builtin(order.builtin)]
    if order.root:
        return _files(Path(order.root), order.files, order.select)
    folder = Path(order.directory)
    targets = [str(folder / name) for name in order.files] or [str(folder)]
    if order.in_repository:
        return [*OVERRIDES, *_select(order.select), *targets]
    own = next((folder / name for name in CONFIGURATIONS if (folder / name).is_file()), Path(os.devnull))
    where = [f"--rootdir={folder}", f"--confcutdir={folder}", "-c", str(own), *OVERRIDES]
    return [*where, *_select(order.select), *targets]


def _builtin(name: str) -> list[str]:
    spec = importlib.util.find_spec(suites.BUILTIN[name])
    if spec is None or spec.origin is None:
        raise SourceError(f"the module of the built-in suite {name!r} is not installed")
    file = Path(spec.origin)
    if file.name == "__init__.py":  # a suite of several files
        return [f"--rootdir={file.parent}", "-c", os.devnull, "-o", "python_files=*.py", str(file.parent)]
    return [f"--rootdir={file.parent}", "-c", os.devnull, str(file)]


def _files(root: Path, patterns: Sequence[str], select: str) -> list[str]:
    """Without the tree's own pytest.ini: torch's asks for plugins that no runner has."""
    files = find(root, patterns)
    mode = import_mode(files)
    where = [f"--rootdir={root}", f"--confcutdir={root}", f"--import-mode={mode}", "-c", os.devnull]
    return [*where, *_select(select), *map(str, files)]


def _select(expression: str) -> list[str]:
    return ["-k", expression] if expression else []


def find(root: Path, patterns: Sequence[str]) -> list[Path]:
    """In the order of the patterns; a pattern that finds nothing is an error, or its tests would be missed silently."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        files = sorted(path for path in root.glob(pattern) if path.is_file())
        if not files:
            raise SourceError(
                f"no file below {root} matches {pattern!r}: are the tests in this image, and at that root?"
            )
        found |= dict.fromkeys(files)
    return list(found)


def import_mode(files: Iterable[Path]) -> str:
    """Files import each other by name, as torch's do, which needs their folders on the path; equal names forbid it."""
    names = Counter(file.name for file in files if not (file.parent / "__init__.py").exists())
    return "importlib" if any(count > 1 for count in names.values()) else "prepend"


# What zygotes may import: none of these asks the CUDA driver. common_device_type and what imports it do.
SAFE_IN_ZYGOTES = (
    "torch.testing._internal.common_utils",
    "torch.testing._internal.common_distributed",
    "torch.testing._internal.common_fsdp",
    "torch.testing._internal.distributed._tensor.common_dtensor",
    "torch.testing._internal.distributed.fake_pg",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
)
IMPORT = re.compile(r"^\s*(?:from|import)\s+(torch[\w.]*)", re.MULTILINE)


def modules_to_preload(suite: "SuitePlan | RankOrder") -> tuple[str, ...]:
    """What the files of a suite import and a zygote may; files that cannot be read are the ranks' to report."""
    try:
        files = find(Path(suite.root), suite.files)
        texts = [file.read_text(errors="replace") for file in files]
    except (OSError, SourceError):
        return ()
    return safe_modules(texts)


def safe_modules(texts: Iterable[str]) -> tuple[str, ...]:
    named = {name for text in texts for name in IMPORT.findall(text)}
    return tuple(safe for safe in SAFE_IN_ZYGOTES if any(f"{name}.".startswith(f"{safe}.") for name in named))


REVISION = re.compile(r"[0-9a-f]{7,40}")


def tree_revision(root: Path) -> str:
    """The commit of the tree that files come from, as far as it says so: by Git, else by torch's version.txt."""
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
    """The result of a suite, with a warning if its files are of another torch."""
    if not suite.root:
        return result
    warning = mismatch(
        tree_revision(Path(suite.root)), torch=versions.get("torch", ""), git=versions.get("torch_git", "")
    )
    return dataclasses.replace(result, message=f"{result.message}; {warning}") if warning else result


def mismatch(revision: str, *, torch: str, git: str) -> str:
    """A sentence, if files of `revision` (a commit or a version) were written for another torch than the one here."""
    if not revision:
        return ""
    if REVISION.fullmatch(revision):
        fits = not git or git.startswith(revision) or revision.startswith(git)
        here = git
    else:
        fits, here = _release(revision) == _release(torch), torch
    return "" if fits else f"the files are of torch {revision}, the torch here is {here}: failures may come of that"


def _release(version: str) -> str:
    """`2.13.0a0+git1234` and `2.13.0+cu130` are one."""
    return ".".join(re.findall(r"\d+", version.partition("+")[0])[:2])
