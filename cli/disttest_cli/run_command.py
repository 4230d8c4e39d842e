"""`disttest run`: the DistTests of a file on this machine, without a cluster."""

import argparse
import asyncio
import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from disttest_cli import local, manifests, table
from disttest_cli.errors import UsageError
from disttest_contract.exits import EXIT_CODES, ExitCode
from disttest_contract.plan import RunPlan
from disttest_contract.report import InvalidReportError, Report
from disttest_operator.core.model import Backend, DistTest
from disttest_operator.core.run_plan import run_plan, unknown_suites
from disttest_runner import gpus

ATTEMPT = 1


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "run",
        help="run DistTests on this machine, without a cluster",
        description="Run every DistTest of a file, one after the other; its nodes are processes of this machine. "
        "Exit code: 0 passed, 10 tests failed, 20 infrastructure, 30 configuration, 2 wrong command.",
    )
    parser.add_argument(
        "-f", "--filename", required=True, metavar="F", help="YAML with DistTests; - for standard input"
    )
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="in place of timeouts.runSeconds")
    parser.add_argument(
        "--files",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="the folder that stands for a ConfigMap; may be repeated",
    )
    parser.add_argument(
        "--report", type=Path, metavar="F", help="where to write the report (default: ./disttest-report-NAME.json)"
    )
    parser.set_defaults(execute=execute)


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds above 0")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Everything is checked before anything is started; the worst exit code counts."""
    tests = manifests.read(options.filename)
    folders = _folders(options.files)
    if options.report and len(tests) > 1:
        raise UsageError(f"--report names one file, but {options.filename} holds {len(tests)} DistTests: leave it away")
    runs = [(test, _plan(test, folders, options.timeout), _report_path(options.report, test)) for test in tests]
    return max(_run(test, plan, path) for test, plan, path in runs)


def _folders(pairs: list[str]) -> dict[str, str]:
    folders = {}
    for pair in pairs:
        name, equals, folder = pair.partition("=")
        if not name or not equals or not Path(folder).is_dir():
            raise UsageError(f"--files {pair}: write NAME=DIR, where DIR is a folder that exists")
        folders[name] = str(Path(folder).resolve())
    return folders


def _plan(test: DistTest, folders: Mapping[str, str], timeout_seconds: int | None) -> RunPlan:
    """Placement is not looked at: all nodes are this machine."""
    unknown = unknown_suites(test.spec)
    if unknown:
        raise UsageError(f"{test.name}: suite {unknown[0]!r} is unknown; known: {manifests.known_suites()}")
    if test.spec.backend is Backend.NCCL:
        _check_gpus(test)
    plan = run_plan(test, ATTEMPT)
    suites = []
    for suite, planned in zip(test.spec.suites, plan.suites, strict=True):
        if suite.config_map and suite.config_map not in folders:
            raise UsageError(
                f"{test.name}: suite {suite.name!r} takes its files from the ConfigMap {suite.config_map!r}, "
                f"which is not here: say --files {suite.config_map}=DIR"
            )
        folder = folders.get(suite.config_map, "") if suite.config_map else ""
        suites.append(dataclasses.replace(planned, directory=folder))
    run_seconds = timeout_seconds or plan.run_seconds
    return dataclasses.replace(plan, suites=tuple(suites), spread=False, run_seconds=run_seconds)


def _check_gpus(test: DistTest) -> None:
    spec, here = test.spec, gpus.count()
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
    result = asyncio.run(local.run(plan, _show, environ=environ))
    if result.report is None:
        print(f"disttest: {plan.name}: {result.problem}; the leader ended with {result.exit_code}", file=sys.stderr)
        return result.exit_code if result.exit_code in (*EXIT_CODES.values(),) else ExitCode.INFRASTRUCTURE
    print()
    print(table.render_report(result.report), end="")
    try:
        path.write_bytes(result.report.dumps())
        print(f"report: {path}", flush=True)
    except OSError as error:
        print(f"disttest: the report cannot be written to {path}: {error.strerror}", file=sys.stderr)
    return EXIT_CODES[result.report.verdict]


def _show(line: str) -> None:
    print(line, flush=True)
