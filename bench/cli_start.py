"""How long the command line takes to start: CPU seconds, since wall time follows what else the machine does."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.figure import Figure
from devcluster.programs import kubernetes
from tests.support.builders.runs import a_report
from tests.support.fakes.canned import Server, serving
from tools.demo.session import say

TIMES = 10
LOCAL_SECONDS, ASKING_SECONDS = 0.3, 0.5
PROGRAM = (sys.executable, "-m", "disttest_cli.main")
COMPLETION = {"_DISTTEST_COMPLETE": "bash_complete", "COMP_WORDS": "disttest pl", "COMP_CWORD": "1"}


@dataclass(frozen=True, slots=True)
class Start:
    command: Sequence[str]
    code: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)


def measure() -> Iterator[Figure]:
    """The least of ten, and what the slowest is of `python -c pass` and `kubectl version --client` in the same run."""
    with tempfile.TemporaryDirectory() as folder, serving() as server:
        report = Path(folder) / "report.json"
        report.write_bytes(a_report().dumps())
        local = _local(str(report))
        asking = Start([*PROGRAM, "list", "--kubeconfig", server.kubeconfig(Path(folder))])
        kubectl = Start([*kubernetes.programs(say)["kubectl"], "version", "--client"])
        seconds = _least(
            {"pass": Start([sys.executable, "-c", "pass"]), "kubectl": kubectl, "list": asking, **local}, server
        )
    yield from (_seconds(name, seconds[name], LOCAL_SECONDS) for name in local)
    yield _seconds("list", seconds["list"], ASKING_SECONDS)
    slowest = max(seconds[name] for name in local)
    say(f"python -c pass {seconds['pass']:.3f} s, kubectl version --client {seconds['kubectl']:.3f} s of CPU time")
    for name, value, by_python, by_kubectl in (("local", slowest, 20, 3), ("list", seconds["list"], 25, 4)):
        yield _times(f"{name}_by_python", value / seconds["pass"], by_python)
        yield _times(f"{name}_by_kubectl", value / seconds["kubectl"], by_kubectl)


def _local(report: str) -> dict[str, Start]:
    return {
        "help": Start([*PROGRAM, "--help"]),
        "run_help": Start([*PROGRAM, "run", "--help"]),
        "wrong_argument": Start([*PROGRAM, "list", "--wrong"], code=2),
        "plan": Start([*PROGRAM, "plan", "-f", "manifests/samples/cpu-smoke.yaml"]),
        "report": Start([*PROGRAM, "report", "-f", report]),
        "compare": Start([*PROGRAM, "compare", report, report]),
        "completion": Start(PROGRAM, environ=COMPLETION),
    }


def _least(starts: Mapping[str, Start], server: Server) -> dict[str, float]:
    """In turn, so that a busy moment meets all of them."""
    seconds = dict.fromkeys(starts, float("inf"))
    for _ in range(TIMES):
        for name, start in starts.items():
            server.answers = [(200, {"items": []})]
            seconds[name] = min(seconds[name], _cpu_seconds(start))
    return seconds


def _cpu_seconds(start: Start) -> float:
    environ = {**os.environ, **start.environ}
    with subprocess.Popen(start.command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, state, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(state)
    if process.returncode != start.code:
        raise SystemExit(f"bench: {' '.join(start.command)} ended with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime


def _seconds(name: str, value: float, goal: float) -> Figure:
    return Figure(name=f"cli_start_{name}", value=round(value, 3), unit="s", compare="<=", goal=goal)


def _times(name: str, value: float, goal: float) -> Figure:
    return Figure(name=f"cli_start_{name}", value=round(value, 1), unit="times", compare="<=", goal=goal)
