"""What the rows of `make gpu` share: ranks, time and gangs; at the end their table is printed."""

import dataclasses
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from disttest_cli.formats import values
from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.results.report import InvalidReportError, Report
from disttest_contract.transport.frames import FrameError
from disttest_runner.agent import accelerator
from disttest_runner.process_group import device
from tests.support import patience
from tests.support.clusters.cluster import say_aloud
from tests.support.gangs import gpu_table
from tests.support.gangs.gang import AgentGang, make_plan
from tests.support.gangs.gpu_table import Machine, Phase, Ranks, Row

NCCL = "nccl"
BUDGET_SECONDS = 600  # of all rows
LEAST_SECONDS = 20  # with less a gang only starts
RESERVE_SECONDS = 15  # to end a gang
PROGRESS_SECONDS = 10
POLL_SECONDS = 0.1
RANKS_ON_CPU = 2
RENDEZVOUS_SECONDS = 120  # torch is imported for the first time
HANG_SECONDS, HANG_SECONDS_ON_CPU = 30, 6
DETAILS = "details"  # the property of a test


def pytest_addoption(parser: pytest.Parser) -> None:
    option = parser.addoption
    option("--backend", default=NCCL, help="Backend of the rows; gloo tests the rows on the CPU and proves nothing")
    option("--budget", type=float, default=BUDGET_SECONDS, help="Seconds for all rows (default 600)")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Table(config), "gpu-table")


def read_machine(backend: str) -> Machine:
    """Read what this process can find out without a gang. The driver is not started."""
    found, versions = accelerator.detect_devices(), device.of_backend(NCCL).versions()
    return Machine(
        gpus=found.products,
        driver=found.driver,
        driver_cuda=found.runtime,
        torch=str(torch.__version__),
        torch_cuda=versions.get("cuda", ""),
        nccl=versions.get("nccl", ""),
        backend=backend,
    )


class Table:
    """Collects what the rows prove, and decides the exit code."""

    def __init__(self, config: pytest.Config) -> None:
        self.say = say_aloud(config)
        self.started = time.monotonic()
        self.ends = self.started + float(config.getoption("--budget"))
        backend = str(config.getoption("--backend"))
        self.machine = read_machine(backend)
        self.ranks = self._choose_ranks() if backend == NCCL else Ranks(number=RANKS_ON_CPU, environ={})
        self.machine = dataclasses.replace(self.machine, ranks=self.ranks.number)
        self.no_gpu = "" if self.ranks.number else gpu_table.why_no_gpu(self.machine, os.environ)
        self.claims: dict[str, str] = {}  # by node id, in order
        self.phases: dict[str, list[Phase]] = defaultdict(list)
        self.details: dict[str, list[str]] = defaultdict(list)

    def _choose_ranks(self) -> Ranks:
        one = self.machine
        with warnings.catch_warnings():  # of drivers that do not work
            warnings.simplefilter("ignore")
            gpus = torch.cuda.device_count()
        return gpu_table.choose_ranks(gpus, nccl=one.nccl, torch_cuda=one.torch_cuda, environ=os.environ)

    @pytest.hookimpl(tryfirst=True)  # before -k and -m
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.claims = {item.nodeid: _claim(item) for item in items}
        if self.no_gpu:
            items.clear()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.say(f"\nmake gpu: {self.claims.get(nodeid, nodeid)} ({self.ends - time.monotonic():.0f} s are left)")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        phase = Phase(when=report.when, outcome=report.outcome, text=_text(report), seconds=report.duration)
        self.phases[report.nodeid].append(phase)
        if report.when == "call":
            self.details[report.nodeid] += [str(value) for name, value in report.user_properties if name == DETAILS]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None]:
        """Print the table after all that pytest prints."""
        yield
        if session.config.option.collectonly or exitstatus in (
            pytest.ExitCode.USAGE_ERROR,
            pytest.ExitCode.INTERNAL_ERROR,
        ):
            return
        rows = self.rows()
        if exitstatus != pytest.ExitCode.INTERRUPTED:
            session.exitstatus = gpu_table.exit_code(rows, self.machine)
        seconds = time.monotonic() - self.started
        print(f"\n{self.no_gpu or gpu_table.render(rows, self.machine, seconds)}")

    def rows(self) -> list[Row]:
        return [gpu_table.row(claim, self.phases[node], self.details[node]) for node, claim in self.claims.items()]


def _claim(item: pytest.Item) -> str:
    marker = item.get_closest_marker("row")
    assert marker is not None, f"{item.nodeid} is no row"
    values = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return str(marker.args[0]).format(**values)


def _text(report: pytest.TestReport) -> str:
    """Return the reason of a skip, or the first line of an error."""
    found = report.longrepr
    if isinstance(found, tuple):
        return found[2].removeprefix("Skipped: ")
    crash = getattr(found, "reprcrash", None)
    line = str(crash.message if crash else found or "").strip().partition("\n")[0]
    return line.removeprefix("AssertionError: ").removeprefix("Failed: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prover:
    """Runs gangs of all ranks, none longer than the time that is left."""

    table: Table
    folder: Path
    used: list[None] = field(default_factory=list)

    @property
    def ranks(self) -> int:
        return self.table.ranks.number

    @property
    def is_on_gpus(self) -> bool:
        return self.table.machine.backend == NCCL

    @property
    def hang_seconds(self) -> int:
        """The deadline of cases that hang: NCCL's first collective takes seconds."""
        return HANG_SECONDS if self.is_on_gpus else patience.whole(HANG_SECONDS_ON_CPU)

    def need_peers(self) -> None:
        if self.ranks < 2:
            pytest.skip(self.table.ranks.missing or "it needs two ranks")

    def need_gpus(self) -> None:
        if not self.is_on_gpus:
            pytest.skip("there is nothing to see on the CPU")

    def run(self, suite: SuitePlan, *, seconds: float, case_seconds: int = 120) -> Report:
        """Run a suite. What takes longer than `seconds` ends as TimedOut, as the plan's deadline has it."""
        left = self.table.ends - time.monotonic() - RESERVE_SECONDS
        if left < LEAST_SECONDS:
            pytest.skip("the time of all rows was over before it could start")
        gang = AgentGang(
            self._plan(suite, int(min(seconds, left)), case_seconds),
            self._new_folder(),
            environ=self.table.ranks.environ,
        )
        try:
            self._wait(gang)
            report = gang.report()
        except (InvalidReportError, FrameError) as error:
            pytest.fail(f"the gang wrote no report ({error}): {gang.text[-2000:]}")
        finally:
            gang.end()
        if text := values.transport(report):
            self.table.machine = dataclasses.replace(self.table.machine, transport=text)
        return report

    def _plan(self, suite: SuitePlan, run_seconds: int, case_seconds: int) -> RunPlan:
        plan = make_plan(suite, nodes=1, ranks=self.ranks, backend=self.table.machine.backend)
        return dataclasses.replace(
            plan, rendezvous_seconds=RENDEZVOUS_SECONDS, case_seconds=case_seconds, run_seconds=run_seconds
        )

    def _new_folder(self) -> Path:
        self.used.append(None)
        folder = self.folder / str(len(self.used))
        folder.mkdir()
        return folder

    def _wait(self, gang: AgentGang) -> None:
        """Until all agents have ended, with a line of progress every few seconds."""
        started = shown = time.monotonic()
        ends = started + gang.plan.run_seconds + RESERVE_SECONDS
        while any(agent.poll() is None for agent in gang.agents.values()):
            now = time.monotonic()
            if now > ends:
                pytest.fail(f"the gang did not end within {now - started:.0f} s: {gang.text[-2000:]}")
            if now > shown + PROGRESS_SECONDS:
                shown = now
                self.table.say(f"make gpu: {now - started:.0f} s, {_progress(gang)}")
            time.sleep(POLL_SECONDS)
        gang.wait()


def _progress(gang: AgentGang) -> str:
    if not (lines := gang.progress):
        return "starting"
    last = lines[-1]
    return f"{last.suite or last.step}: {last.cases_done} of {last.cases_total} cases, {last.current_case}".rstrip(", ")


@pytest.fixture(scope="session")
def prover(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prover:
    table = request.config.pluginmanager.getplugin("gpu-table")
    assert isinstance(table, Table)
    return Prover(table=table, folder=tmp_path_factory.mktemp("gangs"))


@pytest.fixture
def detail(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Adds a text to the row's details."""
    return lambda text: record_property(DETAILS, text)
