"""`disttest run`: run suites, test files or DistTests on this machine, without a cluster."""

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
    help="A built-in suite; with -f one of the file's suites, and no other runs. Repeatable.",
)
@click.option("-f", "--filename", default="", metavar="FILE", help="YAML with DistTests; - for standard input.")
@click.option(
    "--ranks",
    type=click.IntRange(1, 128),
    metavar="N",
    help=f"Ranks in all. Default: one for each GPU; without GPUs {run_request.RANKS_ON_CPU}.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Share the ranks out to so many nodes, each with an agent of its own, on the CPU. Default: 1.",
)
@click.option(
    "--backend",
    type=click.Choice([backend.value for backend in Backend]),
    metavar="nccl|gloo",
    help="Default: nccl on a machine with GPUs, gloo (on the CPU) on one without.",
)
@click.option("-k", "--select", default="", metavar="EXPR", help="Only cases that fit, as pytest's -k has it.")
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="ID",
    help="Only this case, by the whole id that a report gives it. Repeatable, for cases of one suite.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    help="Every case of a suite N times, in turn and in the same ranks; these start anew only after a failure. "
    "The second time a case is ID#2 in the report. None that failed is tried again.",
)
@click.option(
    "--until-fail",
    is_flag=True,
    help="Repeat the cases of one suite up to the first that ends badly: N times with --repeat N, else until --timeout "
    "(which is green then) or Ctrl-C.",
)
@click.option(
    "--keep-going",
    is_flag=True,
    help="With several DistTests in a file: go on after one that did not pass. Suites, cases and repetitions of one "
    "DistTest go on in any case, as on a cluster.",
)
@click.option(
    "--timeout",
    type=options.SECONDS,
    metavar="SECONDS",
    help="Timeout of the run in seconds. The case that is running then is diagnosed and reported as interrupted. "
    "Default: 7200; with -f timeouts.runSeconds of the file.",
)
@click.option(
    "--case-timeout",
    type=options.SECONDS,
    metavar="SECONDS",
    help="Timeout of each case in seconds. A case that takes longer is diagnosed and reported as hung, and the next "
    f"one runs. Default: {run_request.CASE_SECONDS}, or {run_request.COMPILING_CASE_SECONDS} with the suites "
    f"{' and '.join(sorted(run_request.COMPILING))}; with -f timeouts.caseSeconds of the file.",
)
@click.option(
    "--files",
    multiple=True,
    metavar="NAME=DIR",
    help="With -f: the folder that stands for a ConfigMap. Repeatable.",
)
@click.option(
    "--root",
    type=FOLDER,
    default=UPSTREAM_ROOT,
    show_default=True,
    metavar="DIR",
    help="With -f: the folder that `files` of suites are relative to.",
)
@click.option(
    "--artifacts",
    type=FOLDER,
    metavar="DIR",
    help="Where to keep what is too large for the report; made if absent.",
)
@click.option(
    "--report",
    type=FOLDER,
    metavar="FILE",
    help="Where to write the report; default: ./disttest-report-NAME.json.",
)
@click.option("-v", "--verbose", is_flag=True, help="On a terminal: show all that agents and ranks write.")
def command(*, root: Path, artifacts: Path | None, report: Path | None, **asked: Any) -> int:
    """Run suites on this machine, without a cluster; nodes and ranks are its processes.

    A PATH is a test file, or a folder with test files. Every rank runs them; they may use the fixtures `gang`,
    `process_group` and `measure`. Pytest's configuration and conftest.py files of the repository hold, except addopts.

    Exit code: 0 passed, 10 tests failed, 20 infrastructure, 30 configuration, 2 wrong command. The worst one counts.
    """
    verbose = asked.pop("verbose")
    request = RunRequest(suites=asked.pop("suite_names"), **asked)
    if wrong := run_request.problem(request):
        raise UsageError(wrong)
    if absent := [name for name in OF_RANKS if importlib.util.find_spec(name) is None]:
        raise NotInstalledError("run", absent[0], "runner")
    tests, places = _tests(request, root.absolute(), _artifacts(artifacts))
    if report and len(tests) > 1:
        raise UsageError(f"--report names one file, but {request.filename} holds {len(tests)} DistTests: leave it away")
    runs = [
        local_runs.LocalTest(
            test=test,
            plan=local_plans.make(test, places, request),
            report=local_runs.report_path(report, test),
        )
        for test in tests
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
    made = run_request.make_test(request, shape)
    print(f"{made.test.name}: {shape.described()}", flush=True)
    return (made.test,), LocalPlaces(folders=made.folders, root=root, artifacts=artifacts)


def _folders(pairs: Iterable[str]) -> dict[str, Folder]:
    folders = {}
    for pair in pairs:
        name, equals, folder = pair.partition("=")
        if not name or not equals or not Path(folder).is_dir():
            raise UsageError(f"--files {pair}: write NAME=DIR, where DIR is a folder that exists")
        folders[name] = Folder(Path(folder).resolve())
    return folders


def _artifacts(folder: Path | None) -> str:
    """Check the folder, which is created when a run starts."""
    if folder is None:
        return ""
    existing = folder if folder.exists() else folder.absolute().parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"--artifacts {folder}: write a folder that can be written to, or made")
    return str(folder.absolute())
