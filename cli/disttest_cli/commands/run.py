import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from disttest_cli import lazy
from disttest_cli.commands import options
from disttest_cli.errors import NotInstalledError, UsageError
from disttest_cli.input import manifests
from disttest_cli.local import local_plans, run_request
from disttest_cli.local.local_plans import LocalPlaces
from disttest_cli.local.run_request import Folder, RunRequest
from disttest_contract.gang.plan import UPSTREAM_ROOT
from disttest_operator.core.api.model import Backend, DistTest
from disttest_runner.agent import accelerator

if TYPE_CHECKING:
    from disttest_cli.local import local_runs
else:
    local_runs = lazy.module("disttest_cli.local.local_runs")

OF_RANKS = ("torch", "numpy", "pytest")  # imported by ranks only, so checked before the start
BARRIER = "correctness.py::test_barrier_holds_everybody_until_the_last_has_come"
FOLDER = click.Path(path_type=Path)

EPILOG = f"""\b
Suites:
{run_request.listing()}

\b
Examples:
  disttest run --suite collectives
  disttest run tests/test_mine.py --ranks 4 --backend gloo
  disttest run --suite collectives --case {BARRIER} --until-fail
  disttest run -f manifests/samples/cpu-smoke.yaml
"""


@click.command("run", epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=FOLDER)
@click.option(
    "-s",
    "--suite",
    "suite_names",
    multiple=True,
    metavar="NAME",
    help="Built-in suite; with -f, run only this suite of the file. Repeatable.",
)
@click.option("-f", "--filename", default="", metavar="FILE", help="YAML file with DistTests; - is standard input.")
@click.option(
    "--ranks",
    type=click.IntRange(1, 128),
    metavar="N",
    help=f"Total number of ranks. Default: one per GPU; without GPUs {run_request.RANKS_ON_CPU}.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of simulated nodes, each with its own agent. Requires gloo. Default: 1.",
)
@click.option(
    "--backend",
    type=click.Choice([backend.value for backend in Backend]),
    metavar="nccl|gloo",
    help="Backend of the process group. Default: nccl if the machine has GPUs, otherwise gloo.",
)
@click.option("-k", "--select", default="", metavar="EXPR", help="Run only cases that match EXPR, as in pytest -k.")
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="ID",
    help="Run only the case with this ID, as in reports. Repeatable for cases of one suite.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run the cases of each suite N times in the same ranks, which restart only after a failure. The report names "
    "repetitions ID#2, ID#3. Failed cases are not rerun.",
)
@click.option(
    "--until-fail",
    is_flag=True,
    help="Repeat the cases of one suite until one fails: up to N times with --repeat N, otherwise until --timeout "
    "(exit code 0) or Ctrl-C.",
)
@click.option("--keep-going", is_flag=True, help="Continue after a DistTest that does not pass.")
@click.option(
    "--timeout",
    type=options.SECONDS,
    metavar="SECONDS",
    help="Timeout of the run in seconds. The running case is diagnosed and reported as interrupted. "
    "Default: 7200; with -f, timeouts.runSeconds of the file.",
)
@click.option(
    "--case-timeout",
    type=options.SECONDS,
    metavar="SECONDS",
    help="Timeout of each case in seconds. A case that takes longer is diagnosed and reported as hung. "
    f"Default: {run_request.CASE_SECONDS}, or {run_request.COMPILING_CASE_SECONDS} with "
    f"{' and '.join(sorted(run_request.COMPILING))}; with -f, timeouts.caseSeconds of the file.",
)
@click.option(
    "--files",
    multiple=True,
    metavar="NAME=DIR",
    help="With -f, use the files in DIR instead of the ConfigMap NAME. Repeatable.",
)
@click.option(
    "--root",
    type=FOLDER,
    default=UPSTREAM_ROOT,
    show_default=True,
    metavar="DIR",
    help="With -f, the folder that `files` of suites are relative to.",
)
@click.option(
    "--artifacts",
    type=FOLDER,
    metavar="DIR",
    help="Folder for dumps of hangs that are too large for the report.",
)
@click.option(
    "--report", type=FOLDER, metavar="FILE", help="File for the report. Default: ./disttest-report-NAME.json."
)
@click.option("-v", "--verbose", is_flag=True, help="Show all output of agents and ranks on a terminal.")
def command(*, root: Path, artifacts: Path | None, report: Path | None, **asked: Any) -> int:
    """Run suites on this machine, without a cluster; nodes and ranks are processes.

    PATH is a test file or a folder with test files. Every rank runs them, with the fixtures `gang`, `process_group` and
    `measure`. pytest's configuration (except addopts) and conftest.py files of the repository apply.

    Exit codes: 0 passed, 10 tests failed, 20 infrastructure failure, 30 configuration error, 2 usage error. For
    several DistTests, the worst one.
    """
    verbose = asked.pop("verbose")
    request = RunRequest(suites=asked.pop("suite_names"), **asked)
    if wrong := run_request.problem(request):
        raise UsageError(wrong)
    if absent := [name for name in OF_RANKS if importlib.util.find_spec(name) is None]:
        raise NotInstalledError("run", absent[0], "runner")
    tests, places = _tests(request, root.absolute(), _artifacts(artifacts))
    if report and len(tests) > 1:
        raise UsageError(
            f"--report names one file, but {request.filename} contains {len(tests)} DistTests. Remove --report."
        )
    plans = [local_plans.make(test, places, request) for test in tests]
    runs = [
        local_runs.LocalTest(test=test, plan=plan, report=local_runs.report_path(report, test))
        for test, plan in zip(tests, plans, strict=True)
    ]
    return local_runs.run(runs, keeps_going=request.keep_going, shows_all=verbose)


def _tests(request: RunRequest, root: Path, artifacts: str) -> tuple[tuple[DistTest, ...], LocalPlaces]:
    if request.filename:
        documents = manifests.read(request.filename)
        places = LocalPlaces(
            folders=_folders(request.files), config_maps=documents.config_maps, root=root, artifacts=artifacts
        )
        return local_plans.of_file(documents, request), places
    shape = run_request.shape(request, len(accelerator.detect_devices().products))
    test, folders = run_request.make_test(request, shape)
    print(f"{test.name}: {shape.described()}", flush=True)
    return (test,), LocalPlaces(folders=folders, root=root, artifacts=artifacts)


def _folders(pairs: Iterable[str]) -> dict[str, Folder]:
    folders = {}
    for pair in pairs:
        name, equals, folder = pair.partition("=")
        if not name or not equals or not Path(folder).is_dir():
            raise UsageError(f"--files {pair} is not valid. Write NAME=DIR, where DIR is an existing folder.")
        folders[name] = Folder(Path(folder).resolve())
    return folders


def _artifacts(folder: Path | None) -> str:
    """Check the folder, which is created when a run starts."""
    if folder is None:
        return ""
    existing = folder if folder.exists() else folder.absolute().parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"--artifacts {folder} cannot be created or written. Name a writable folder.")
    return str(folder.absolute())
