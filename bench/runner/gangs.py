"""Gangs of real agents on this machine, with the time and CPU that they used."""

import json
import os
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from disttest_cli.local.agents import agent_environment, free_port
from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.results.report import Report
from disttest_contract.transport import frames

RUN_SECONDS = 300
FOLDER, ZYGOTE, CASES = "BENCH_FOLDER", "BENCH_ZYGOTE", "BENCH_CASES"  # environment variables of the agents
QUIET = {
    "GLOO_SOCKET_IFNAME": "lo",  # otherwise gloo resolves the name of the host
    "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    report: Report
    wall_seconds: float
    cpu_seconds: float  # of all processes
    own: Mapping[int, Mapping[str, Any]]  # by node index: what each agent measured of itself

    @property
    def case_ms(self) -> float:
        """Milliseconds per case, from the start of the first one to the result of the last one."""
        first, last = self.report.first_case, self.report.last_case
        if first is None or last is None:
            raise SystemExit(f"bench: no case was run: {self.report.message}")
        return 1e3 * (last - first) / self.report.counts.total

    @property
    def start_seconds(self) -> list[float]:
        """Seconds of each generation from the leader's request until all ranks had collected."""
        return list(self.own[0]["starts"])


def plan(*suites: SuitePlan, nodes: int, ranks: int) -> RunPlan:
    return RunPlan(
        namespace="bench",
        name="bench",
        uid="bench",
        series="",
        attempt=1,
        nodes=nodes,
        ranks_per_node=ranks,
        backend="gloo",
        spread=False,
        suites=suites,
        rendezvous_seconds=120,
        case_seconds=60,
        run_seconds=RUN_SECONDS,
    )


def run(suite: SuitePlan, *, nodes: int, ranks: int, environ: Mapping[str, str] | None = None, **changes: Any) -> Ran:
    """Run a gang, with changes to its plan, until its last agent has ended; one without a report ends the benchmark."""
    nonce, leader = secrets.token_hex(16), f"127.0.0.1:{free_port()}"
    wanted = replace(plan(suite, nodes=nodes, ranks=ranks), **changes)
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as name:
        folder = Path(name)
        shared = {FOLDER: name, **(environ or {})}
        started, used = time.monotonic(), children_cpu_seconds()
        agents = [
            start("agent", shared | agent_environment(wanted, index, nonce=nonce, leader=leader, folder=folder))
            for index in range(nodes)
        ]
        try:
            text = agents[0].communicate(timeout=RUN_SECONDS)[0]
            for agent in agents[1:]:
                agent.wait(RUN_SECONDS)
        finally:
            for agent in agents:
                agent.kill()
                agent.wait()
        wall, cpu = time.monotonic() - started, children_cpu_seconds() - used
        own = {int(file.stem): json.loads(file.read_text()) for file in folder.glob("*.json")}
    return Ran(report=read_report(text, nonce), wall_seconds=wall, cpu_seconds=cpu, own=own)


def read_report(text: str, nonce: str) -> Report:
    try:
        return Report.loads(frames.decode(text, nonce))
    except frames.FrameError as error:
        raise SystemExit(f"bench: a gang left no report ({error}):\n{text[-3000:]}") from error


def start(role: str, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start an agent, or the leader alone."""
    leads = environ["JOB_COMPLETION_INDEX"] == "0"
    return subprocess.Popen(
        [sys.executable, "-m", "bench.runner.processes", role],
        env={**os.environ, **QUIET, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if leads else subprocess.DEVNULL,
        stderr=subprocess.STDOUT if leads else None,
        text=True,
        start_new_session=True,
    )


def children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def suite_of(source: str) -> Iterator[SuitePlan]:
    """A user's suite of one file."""
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as name:
        (Path(name) / "test_it.py").write_text(source)
        yield SuitePlan(name="bench", directory=name)


def expect(ran: Ran, **counts: int) -> Ran:
    """End the benchmark unless the run has exactly these numbers of outcomes."""
    found = {outcome: number for outcome, number in ran.report.counts.to_json().items() if outcome in counts}
    if found != counts or ran.report.counts.total != sum(counts.values()):
        raise SystemExit(f"bench: expected {counts}, got {ran.report.counts.to_json()}: {ran.report.message}")
    return ran
