"""Gangs of real agents on this machine, which can be omitted, configured differently or killed individually."""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from disttest_cli.local.agents import agent_environment, free_port
from disttest_contract.gang import environment
from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult, Report, SuiteResult
from disttest_contract.results.thresholds import Threshold
from disttest_contract.transport import frames, progress
from disttest_contract.transport.progress import Progress
from disttest_contract.transport.termination_message import Summary
from disttest_runner.agent import accelerator
from tests.support import patience

MARK = "RUNNER_TEST_MARK"  # in the environment of every process of a gang
# As pods with gpusPerNode 0 have it. Where there is no GPU the runner itself must notice.
ON_CPU = environment.WITHOUT_GPUS if accelerator.detect_devices().products else {}
END_SECONDS = 240  # a deadline against hanging for ever, not a measure: a busy machine may need most of it


def make_plan(
    *suites: SuitePlan,
    nodes: int = 2,
    ranks: int = 2,
    rendezvous_seconds: int = 30,
    case_seconds: int = 20,
    run_seconds: int = 120,
    spread: bool = True,
    flaky_retries: int = 0,
    artifacts: str = "",
    thresholds: Sequence[Threshold] = (),
    backend: str = "gloo",
) -> RunPlan:
    return RunPlan(
        namespace="default",
        name="tried",
        uid="uid-of-the-run",
        series="",
        attempt=1,
        nodes=nodes,
        ranks_per_node=ranks,
        backend=backend,
        spread=spread,
        suites=suites,
        rendezvous_seconds=patience.whole(rendezvous_seconds),
        case_seconds=patience.whole(case_seconds),
        run_seconds=patience.whole(run_seconds),
        flaky_retries=flaky_retries,
        artifacts=artifacts,
        thresholds=tuple(thresholds),
    )


def builtin(name: str) -> SuitePlan:
    return SuitePlan(name=name, builtin=name)


def suite_of(folder: Path, source: str, name: str = "mine") -> SuitePlan:
    """A user's suite of one file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_it.py").write_text(source)
    return SuitePlan(name=name, directory=str(folder))


@dataclass
class AgentGang:
    """`environ` goes to all agents, `own` and `wrap` to single ones."""

    plan: RunPlan
    folder: Path
    indexes: Iterable[int] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    wrap: Mapping[int, Sequence[str]] = field(default_factory=dict)  # a program that executes the agent's
    python: Path = Path(sys.executable)  # or one that has another torch
    program: Sequence[str] = ("-m", "disttest_runner")  # or where it was copied to

    started: ClassVar[list["AgentGang"]] = []

    def __post_init__(self) -> None:
        self.started.append(self)
        self.nonce = secrets.token_hex(8)
        self.mark = secrets.token_hex(8)
        self.port = free_port()
        self.log: list[str] = []
        self.agents: dict[int, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []
        indexes = range(self.plan.nodes) if self.indexes is None else self.indexes
        for index in indexes:
            self.start(index)

    def start(self, index: int, key: int | None = None, **changes: str) -> subprocess.Popen[str]:
        """An agent; `key` names it where several have one index."""
        known = agent_environment(
            self.plan, index, nonce=self.nonce, leader=f"127.0.0.1:{self.port}", folder=self.folder
        )
        environ = {**os.environ, **ON_CPU, "GLOO_SOCKET_IFNAME": "lo", MARK: self.mark}
        environ |= {**known, **self.environ, **self.own.get(index, {}), **changes}
        process = subprocess.Popen(
            [*self.wrap.get(index, ()), str(self.python), *self.program, f"--parent={os.getpid()}"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.agents[index if key is None else key] = process
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        self._readers.append(reader)
        return process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.log += (line.rstrip("\n") for line in process.stdout)

    def wait_for_line(self, text: str, seconds: float = 40) -> None:
        wait_for(lambda: any(text in line for line in self.log), f"no line with {text!r}", seconds, lambda: self.text)

    @property
    def text(self) -> str:
        return "\n".join(line for line in self.log if not line.startswith((frames.MARK, progress.MARK)))

    @property
    def progress(self) -> list[Progress]:
        """How far the leader said that the run was, oldest first."""
        return [found for line in list(self.log) if (found := Progress.read(line, self.nonce))]

    def wait(self, seconds: float = END_SECONDS) -> dict[int, int]:
        """Exit codes, once all agents have ended."""
        wait_for(lambda: not self._running(), f"agents {self._running()} did not end", seconds, lambda: self.text)
        codes = {index: agent.wait() for index, agent in self.agents.items()}
        for reader in self._readers:
            reader.join(5)
        return codes

    def _running(self) -> list[int]:
        return [index for index, agent in self.agents.items() if agent.poll() is None]

    def report(self) -> Report:
        return Report.loads(frames.decode("\n".join(self.log), self.nonce))

    def summary(self, index: int = 0) -> Summary:
        return self.read_summary(self.folder / f"termination-{index}")

    @staticmethod
    def read_summary(file: Path) -> Summary:
        text = file.read_text()
        found = Summary.read(text)
        assert found is not None, f"not a summary: {text[:500]}"
        return found

    def living(self) -> list[str]:
        """Command lines of processes of this gang."""
        return [command for _, command in self.processes()]

    def processes(self) -> list[tuple[int, str]]:
        """Those that can be seen: agents hide, unless we are root, and are waited for."""
        return marked(self.mark)

    def check_nothing_left(self) -> None:
        wait_for(lambda: not self.living(), "processes were left behind", 3, lambda: str(self.living()))

    def end(self) -> None:
        for agent in self.agents.values():
            agent.kill()
            agent.wait()
            if agent.stdout:
                agent.stdout.close()
        for pid, _ in marked(self.mark):
            os.kill(pid, signal.SIGKILL)
        print(self.text)  # shown where the test fails

    def run(self, seconds: float = END_SECONDS) -> Report:
        """To the end; nothing may be left."""
        try:
            self.wait(seconds)
            self.check_nothing_left()
            return self.report()
        finally:
            self.end()


def marked(mark: str) -> list[tuple[int, str]]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append((int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")))
        except OSError:  # it ended meanwhile, or is hidden from us: agents are, and they are waited for
            continue
    return found


def wait_for(
    condition: Callable[[], bool], problem: str, seconds: float, details: Callable[[], str] = lambda: ""
) -> None:
    patience.wait_until(problem, condition, seconds, details=details)


def only_suite(report: Report) -> SuiteResult:
    (suite,) = report.suites
    return suite


def case(report: Report, name: str) -> CaseResult:
    """The one whose id ends so."""
    (found,) = [one for suite in report.suites for one in suite.cases if one.id.split("::")[-1] == name]
    return found


def outcomes(suite: SuiteResult) -> dict[str, Outcome]:
    """By the names of the cases, without their files."""
    return {case.id.split("::")[-1]: case.outcome for case in suite.cases}
