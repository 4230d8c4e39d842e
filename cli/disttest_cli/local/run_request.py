"""The options of `disttest run`: their rules, the shape of the gang, and the DistTest that they describe."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disttest_cli.errors import UsageError
from disttest_cli.input import manifests
from disttest_contract.gang import suites
from disttest_contract.gang.plan import FOR_EVER
from disttest_contract.text import formatting
from disttest_operator.core.api.model import API_VERSION, Backend, DistTest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Options; empty or None if unset. `repeat` is the number of runs of each case."""

    filename: str = ""
    paths: tuple[Path, ...] = ()
    suites: tuple[str, ...] = ()
    ranks: int | None = None
    nodes: int | None = None
    backend: str | None = None
    select: str = ""
    cases: tuple[str, ...] = ()
    repeat: int | None = None
    until_fail: bool = False
    keep_going: bool = False
    files: tuple[str, ...] = ()
    timeout: int | None = None
    case_timeout: int | None = None

    @property
    def times(self) -> int:
        """Number of repetitions; unlimited with --until-fail alone."""
        return self.repeat or (FOR_EVER if self.until_fail else 1)


def problem(request: RunRequest) -> str:
    return next((sentence for is_broken, sentence in _rules(request) if is_broken), "")


def _rules(request: RunRequest) -> Sequence[tuple[bool, str]]:
    shape = next((f"--{name}" for name in ("ranks", "nodes", "backend") if getattr(request, name)), "")
    named = next((str(path) for path in request.paths if "::" in str(path)), "")
    file, _, case = named.partition("::")
    return (
        (not (request.filename or request.paths or request.suites), f"nothing to run. Use {WHAT}."),
        (
            bool(request.filename and request.paths),
            "-f and PATH exclude each other. To choose suites of the file, use --suite.",
        ),
        (
            bool(request.filename and shape),
            f"{shape} requires --suite or PATH. With -f, set nodes, ranksPerNode or backend in the file.",
        ),
        (
            bool(request.files and not request.filename),
            "--files replaces ConfigMaps of a file and requires -f. To run your own tests, give their PATH.",
        ),
        (bool(named), f"{named} is a case, not a path. Write {file} --case {Path(file).name}::{case}"),
        (
            bool(request.timeout and (request.case_timeout or 0) > request.timeout),
            f"--case-timeout {request.case_timeout} is longer than --timeout {request.timeout}. Increase --timeout.",
        ),
        (bool(request.cases and request.select), "--case and --select exclude each other. Use one of them."),
        (
            request.until_fail and request.keep_going,
            "--until-fail and --keep-going exclude each other. Use one of them.",
        ),
    )


def listing() -> str:
    width = max(map(len, suites.SUMMARIES))
    return "\n".join(f"  {name.ljust(width)}  {summary}" for name, summary in sorted(suites.SUMMARIES.items()))


WHAT = f"--suite NAME, a PATH with test files, or -f FILE with DistTests; suites: {suites.known()}"


def of_one_suite(request: RunRequest, names: Sequence[str]) -> str:
    """A message if the options need a single suite and there are several; else empty."""
    if len(names) == 1:
        return ""
    several = f"there are {len(names)} ({', '.join(names[:4])}{', …' if len(names) > 4 else ''}). Use --suite NAME."
    if request.cases:
        return f"--case selects cases of one suite, but {several}"
    if request.until_fail:
        return f"--until-fail repeats cases of one suite, but {several}"
    return ""


RANKS_ON_CPU = 2
NAME_CHARACTERS = 40
SEVERAL = "local"  # name of a DistTest with several suites
CASE_SECONDS = 60  # a hang is reported within a minute
COMPILING_CASE_SECONDS = 300  # cases of these suites compile for tens of seconds on slow processors
COMPILING = frozenset({"data-parallel", "replicate-compile"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Nodes, ranks and backend of a run; `why` is the reason for the backend."""

    backend: Backend
    nodes: int
    ranks: int  # total
    why: str

    def described(self) -> str:
        where = "GPUs with NCCL" if self.backend is Backend.NCCL else "the CPU with gloo"
        ranks = formatting.counted(self.ranks, "rank")
        return f"{ranks}{f' on {self.nodes} nodes' if self.nodes > 1 else ''} on {where}: {self.why}"


def shape(request: RunRequest, gpus: int) -> Shape:
    """Use GPUs if available, unless --backend is gloo."""
    nodes = request.nodes or 1
    on_cpu = Shape(
        backend=Backend.GLOO, nodes=nodes, ranks=request.ranks or max(RANKS_ON_CPU, nodes), why="--backend gloo"
    )
    if on_cpu.ranks % nodes:
        raise UsageError(f"--ranks {on_cpu.ranks} is not a multiple of --nodes {nodes}. Use a multiple of {nodes}.")
    if request.backend == Backend.GLOO:
        return on_cpu
    has = f"this machine has {formatting.counted(gpus, 'GPU') if gpus else 'no GPU'}"
    if not gpus and not request.backend:
        return Shape(backend=Backend.GLOO, nodes=nodes, ranks=on_cpu.ranks, why=has)
    if nodes > 1:
        raise UsageError(f"--nodes {nodes} requires gloo, because nodes cannot share GPUs. Add --backend gloo.")
    ranks = request.ranks or gpus
    if not gpus or ranks > gpus:
        fewer = f"--ranks {gpus}, or " if gpus else ""
        every = formatting.counted(ranks, "rank") if ranks else "all ranks"
        raise UsageError(f"NCCL needs one GPU per rank ({every}), but {has}. Use {fewer}--backend gloo.")
    return Shape(backend=Backend.NCCL, nodes=1, ranks=ranks, why=has)


@dataclass(frozen=True, slots=True)
class Folder:
    """Replaces a ConfigMap. `files` contain the cases; all files of the folder if empty.

    If `in_repository`, pytest's configuration and conftest.py are also searched in parent folders.
    """

    path: Path
    files: tuple[str, ...] = ()
    in_repository: bool = False


def make_test(request: RunRequest, of_shape: Shape) -> tuple[DistTest, dict[str, Folder]]:
    """The DistTest of built-in suites and paths, and the folders of its ConfigMaps. Raises UsageError."""
    for name in request.suites:
        if name not in suites.BUILTIN:
            raise UsageError(f"suite {name!r} is unknown. Known suites: {suites.known()}")
    folders = _named(_folders(request.paths), taken=request.suites)
    names = [*dict.fromkeys(request.suites), *folders]
    entries: list[dict[str, Any]] = [{"name": name} for name in dict.fromkeys(request.suites)]
    entries += [{"name": name, "configMap": {"name": name}} for name in folders]
    per_node = of_shape.ranks // of_shape.nodes
    body = {
        "apiVersion": API_VERSION,
        "kind": "DistTest",
        "metadata": {"name": names[0] if len(names) == 1 else SEVERAL},
        "spec": {
            "suites": entries,
            "nodes": of_shape.nodes,
            "gpusPerNode": per_node if of_shape.backend is Backend.NCCL else 0,
            "ranksPerNode": per_node,
            "backend": of_shape.backend.value,
            "timeouts": {"caseSeconds": COMPILING_CASE_SECONDS if COMPILING & {*request.suites} else CASE_SECONDS},
        },
    }
    return manifests.parse_test(body, "the options describe no valid DistTest"), folders


def _folders(paths: Sequence[Path]) -> list[Folder]:
    """Files of one folder become one suite, so that they can import each other as in a ConfigMap."""
    files: dict[Path, list[str]] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist. Give a test file, or a folder with test files.")
        place = path.resolve()
        files.setdefault(place if place.is_dir() else place.parent, []).extend([] if place.is_dir() else [place.name])
    whole = {path.resolve() for path in paths if path.is_dir()}
    return [
        Folder(path, () if path in whole else tuple(dict.fromkeys(names)), in_repository=True)
        for path, names in files.items()
    ]


def _named(folders: Sequence[Folder], taken: Sequence[str]) -> dict[str, Folder]:
    """Suites by unique names: that of a single file, else that of the folder."""
    named: dict[str, Folder] = {}
    for folder in folders:
        name = suite_name(Path(folder.files[0]).stem if len(folder.files) == 1 else folder.path.name)
        others = {*taken, *suites.BUILTIN, *named}
        free = (name, *(f"{name}-{number}" for number in range(2, len(others) + 3)))
        named[next(one for one in free if one not in others)] = folder
    return named


def suite_name(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = words if words[:1].isalpha() else f"suite-{words}"
    return name[:NAME_CHARACTERS].strip("-")
