"""`disttest run`: the DistTests of a file on this machine, without a cluster."""

import asyncio
import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from disttest_cli import local, manifests, options, quarantine, table
from disttest_cli.errors import UsageError
from disttest_contract.exits import EXIT_CODES, ExitCode
from disttest_contract.plan import UPSTREAM_ROOT, RunPlan, SuitePlan
from disttest_contract.report import InvalidReportError, Report
from disttest_operator.core.model import Backend, DistTest, Suite
from disttest_operator.core.run_plan import excess, run_plan, unknown_suites
from disttest_runner import gpus

ATTEMPT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where this machine has what a cluster would mount."""

    folders: Mapping[str, str]  # ConfigMap -> folder
    config_maps: manifests.ConfigMaps
    root: Path
    artifacts: str


@click.command("run")
@options.filename("YAML with DistTests; - for standard input.")
@click.option("--timeout", type=options.SECONDS, metavar="SECONDS", help="In place of timeouts.runSeconds.")
@click.option("--files", multiple=True, metavar="NAME=DIR", help="The folder that stands for a ConfigMap; repeatable.")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=UPSTREAM_ROOT,
    show_default=True,
    metavar="DIR",
    help="The folder that `files` of suites are relative to.",
)
@click.option(
    "--artifacts",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to keep what is too large for the report; made if absent.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write the report; default: ./disttest-report-NAME.json.",
)
def command(
    *,
    filename: str,
    timeout: int | None,
    files: tuple[str, ...],
    root: Path,
    artifacts: Path | None,
    report: Path | None,
) -> int:
    """Run every DistTest of a file, one after the other; its nodes are processes of this machine.

    Exit code: 0 passed, 10 tests failed, 20 infrastructure, 30 configuration, 2 wrong command. The worst one counts.
    """
    # Everything is checked before anything is started.
    documents = manifests.read(filename)
    tests = documents.tests
    places = Places(
        folders=_folders(files),
        config_maps=documents.config_maps,
        root=root.absolute(),
        artifacts=_artifacts(artifacts),
    )
    if report and len(tests) > 1:
        raise UsageError(f"--report names one file, but {filename} holds {len(tests)} DistTests: leave it away")
    runs = [(test, _plan(test, places, timeout), _report_path(report, test)) for test in tests]
    return max(_run(test, plan, path) for test, plan, path in runs)


def _folders(pairs: Iterable[str]) -> dict[str, str]:
    folders = {}
    for pair in pairs:
        name, equals, folder = pair.partition("=")
        if not name or not equals or not Path(folder).is_dir():
            raise UsageError(f"--files {pair}: write NAME=DIR, where DIR is a folder that exists")
        folders[name] = str(Path(folder).resolve())
    return folders


def _artifacts(folder: Path | None) -> str:
    """Made when a run begins: a command that is refused leaves nothing behind."""
    if folder is None:
        return ""
    there = folder if folder.exists() else folder.absolute().parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--artifacts {folder}: write a folder that can be written to, or made")
    return str(folder.absolute())


def _plan(test: DistTest, places: Places, timeout_seconds: int | None) -> RunPlan:
    """Placement is not looked at: all nodes are this machine."""
    unknown = unknown_suites(test.spec)
    if unknown:
        raise UsageError(f"{test.name}: suite {unknown[0]!r} is unknown; known: {manifests.known_suites()}")
    if test.spec.backend is Backend.NCCL:
        _check_gpus(test)
    plan = run_plan(test, ATTEMPT, quarantine.find(test, places.config_maps, places.folders))
    suites = zip(test.spec.suites, plan.suites, strict=True)
    plan = dataclasses.replace(
        plan,
        suites=tuple(_here(test, suite, planned, places) for suite, planned in suites),
        spread=False,
        run_seconds=timeout_seconds or plan.run_seconds,
        artifacts=places.artifacts,
    )
    if problem := excess(plan):
        raise UsageError(f"{test.name}: {problem}")
    return plan


def _here(test: DistTest, suite: Suite, planned: SuitePlan, places: Places) -> SuitePlan:
    """The suite with its files from this machine."""
    if suite.config_map:
        if suite.config_map not in places.folders:
            raise UsageError(
                f"{test.name}: suite {suite.name!r} takes its files from the ConfigMap {suite.config_map!r}, "
                f"which is not here: say --files {suite.config_map}=DIR"
            )
        return dataclasses.replace(planned, directory=places.folders[suite.config_map])
    if suite.files:
        if not places.root.is_dir():
            raise UsageError(
                f"{test.name}: suite {suite.name!r} takes its files from below {places.root}, "
                "which is no folder here: say --root DIR"
            )
        return dataclasses.replace(planned, root=str(places.root))
    return planned


def _check_gpus(test: DistTest) -> None:
    spec, here = test.spec, len(gpus.look().products)
    if spec.nodes > 1:
        raise UsageError(
            f"{test.name}: {spec.nodes} nodes over NCCL would share the GPUs of this machine: "
            "set `nodes: 1`, or `gpusPerNode: 0` to run on the CPU"
        )
    if here < spec.ranks_per_node:
        raise UsageError(
            f"{test.name}: backend nccl needs a GPU for each of {spec.ranks_per_node} ranks, this machine has {here}: "
            "set `gpusPerNode: 0` (and leave `backend` away) to run on the CPU over gloo"
        )


def _report_path(chosen: Path | None, test: DistTest) -> Path:
    """Refuse early what must not be overwritten, or cannot be written."""
    path = chosen or Path(f"disttest-report-{test.name}.json")
    if path.exists():
        try:
            Report.loads(path.read_bytes())
        except (OSError, InvalidReportError) as error:
            raise UsageError(f"{path} exists and is not a report: name another file with --report ({error})") from error
    folder = path.parent
    if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{path} cannot be written: name another file with --report")
    return path


def _run(test: DistTest, plan: RunPlan, path: Path) -> int:
    environ = {**os.environ, **dict(test.spec.env)}
    _prepare_artifacts(test, plan)
    result = asyncio.run(local.run(plan, _show, environ=environ))
    if result.report is None:
        print(f"disttest: {plan.name}: {result.problem}; the leader ended with {result.exit_code}", file=sys.stderr)
        return result.exit_code if result.exit_code in (*EXIT_CODES.values(),) else ExitCode.INFRASTRUCTURE
    print()
    print(table.render_report(result.report, plan.thresholds), end="")
    try:
        path.write_bytes(result.report.dumps())
        print(f"report: {path}", flush=True)
    except OSError as error:
        print(f"disttest: the report cannot be written to {path}: {error.strerror}", file=sys.stderr)
    return EXIT_CODES[result.report.verdict]


def _prepare_artifacts(test: DistTest, plan: RunPlan) -> None:
    claim = test.spec.artifacts.persistent_volume_claim
    if plan.artifacts:
        try:
            Path(plan.artifacts).mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"--artifacts {plan.artifacts} cannot be made: {error.strerror}") from error
    elif claim:
        print(
            f"disttest: {test.name}: the claim {claim!r} is not here, what is too large for the report is not kept: "
            "say --artifacts DIR to keep it",
            file=sys.stderr,
            flush=True,
        )


def _show(line: str) -> None:
    print(line, flush=True)
