"""Run DistTests on this machine one after the other: progress, table, report and exit code of each."""

import asyncio
import contextlib
import os
import shlex
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from disttest_cli.errors import SIGNALLED, UsageError, warn
from disttest_cli.formats import advice, table
from disttest_cli.input import files
from disttest_cli.local import agents
from disttest_cli.views import live, terminal
from disttest_cli.views.live import GangShape, LiveView
from disttest_contract import limits
from disttest_contract.gang import environment
from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import EXIT_CODES, ExitCode, Verdict
from disttest_contract.results.report import InvalidReportError, OtherSchemaError, Report
from disttest_contract.text import escaping
from disttest_operator.core.api.model import DistTest, Spec

LAST_LINES = 40  # printed if there is no report
WARNING = "warning: "  # prefix of runner lines that are shown during a run


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTest:
    test: DistTest
    plan: RunPlan
    report: Path


def run(tests: Sequence[LocalTest], *, keeps_going: bool, shows_all: bool) -> int:
    """Return the worst exit code. Stops at the first failed run unless `keeps_going`, and at Ctrl-C."""
    codes = []
    for number, one in enumerate(tests, start=1):
        code, is_interrupted = _run(one, shows_all=shows_all)
        codes.append(code)
        left = [other.plan.name for other in tests[number:]]
        if left and (is_interrupted or (code and not keeps_going)):
            hint = "" if is_interrupted else ". To run them anyway, use --keep-going."
            warn(f"not run, because {one.plan.name} did not pass: {', '.join(left)}{hint}")
            break
    return max(codes)


def report_path(chosen: Path | None, test: DistTest) -> Path:
    """The path of the report. Raises UsageError if it cannot be written, or is another file."""
    path = chosen or Path(f"disttest-report-{test.name}.json")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file. Name another file with --report.")
    if path.exists():
        try:
            with contextlib.suppress(OtherSchemaError):
                Report.loads(files.read(str(path), limits.REPORT_BYTES))
        except (OSError, InvalidReportError) as error:
            raise UsageError(
                f"{path} exists and is not a report ({error}). Name another file with --report."
            ) from error
    folder = path.parent
    if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{path} cannot be written. Name another file with --report.")
    return path


def environ_of(spec: Spec, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of agents: `spec.env` has precedence, and runs on the CPU do not see GPUs.

    PYTEST_ADDOPTS is removed, since ranks do not support options such as `-v` or `--color`.
    """
    inherited = {name: value for name, value in environ.items() if name != "PYTEST_ADDOPTS"}
    return {**inherited, **({} if spec.gpus_per_node else environment.WITHOUT_GPUS), **dict(spec.env)}


def _run(one: LocalTest, *, shows_all: bool) -> tuple[int, bool]:
    environ = environ_of(one.test.spec, os.environ)
    _prepare_artifacts(one.test, one.plan)
    console = terminal.console()
    result = asyncio.run(_watched(one.plan, console, environ, shows_all=shows_all))
    if result.quit_by:
        warn(f"{one.plan.name}: interrupted twice, stopped without a report")
        return SIGNALLED + result.quit_by, True
    if result.report is None:
        warn(f"{one.plan.name}: {escaping.line(result.problem)}; exit code of the leader: {result.exit_code}")
        is_known = result.exit_code in set(EXIT_CODES.values()) - {0}  # 0 without a report is a failure
        return (result.exit_code if is_known else ExitCode.INFRASTRUCTURE), result.is_interrupted
    show_report(console, result.report, one)
    return EXIT_CODES[result.report.verdict], result.is_interrupted


async def _watched(plan: RunPlan, console: Console, environ: dict[str, str], *, shows_all: bool) -> agents.LocalRun:
    """Run with a live view on a terminal, else print the lines of agents."""
    if not live.fits(console):
        return await agents.run(plan, agents.AgentReader(line=terminal.say), environ=environ)
    gang = GangShape(nodes=plan.nodes, ranks_per_node=plan.ranks_per_node, suites=len(plan.suites))
    with LiveView(console, gang) as view:
        lines = AgentLines(view, shows_all=shows_all)
        result = await agents.run(plan, agents.AgentReader(line=lines.take, progress=view.feed), environ=environ)
    if result.report is None:
        for line in lines.last:
            terminal.say(line)
    return result


@dataclass(slots=True)
class AgentLines:
    """Shows lines of agents and ranks above a view: only warnings, unless `shows_all`."""

    view: LiveView
    shows_all: bool
    last: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def take(self, line: str) -> None:
        if self.shows_all:
            self.view.say(Text(escaping.exact_line(line)))
        elif line.startswith(WARNING):
            self.view.say(line)
        else:
            self.last.append(line)


def show_report(console: Console, report: Report, one: LocalTest) -> None:
    lines = table.render_report(report, one.plan.thresholds).splitlines()
    console.print()
    for line in lines[:-1]:
        console.print(Text(line))
    console.print(Text(lines[-1], style=terminal.STYLES.get(report.verdict.value, "")))
    if report.verdict is not Verdict.PASSED:
        console.print(Text(f"To do: {advice.for_report(report)}"))
    try:
        one.report.write_bytes(report.dumps())
    except OSError as error:
        warn(f"the report cannot be written to {one.report}: {error.strerror}")
        return
    console.print(Text(f"report: {escaping.line(str(one.report))}"))
    if console.is_terminal:
        file = escaping.line(shlex.quote(str(one.report)))
        console.print(Text(f"HTML page: disttest report -f {file} -o html=report.html", style=terminal.QUIET))
        if report.verdict is not Verdict.PASSED:
            console.print(Text("output of ranks: run again with --verbose", style=terminal.QUIET))


def _prepare_artifacts(test: DistTest, plan: RunPlan) -> None:
    claim = test.spec.artifacts.persistent_volume_claim
    if plan.artifacts:
        try:
            Path(plan.artifacts).mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"--artifacts {plan.artifacts} cannot be created: {error.strerror}") from error
    elif claim:
        warn(
            f"{test.name}: claim {claim!r} of spec.artifacts is not available on this machine. "
            "To store large dumps, use --artifacts DIR."
        )
