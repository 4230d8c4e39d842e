"""How long the command line takes to start, in CPU seconds, since wall time depends on other processes."""

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench import reports
from bench.figure import Figure, at_most
from bench.reports import PROGRAM
from devcluster.controlplane import kubeconfig
from devcluster.programs import kubernetes
from disttest_runner.compat import override
from tools.demo.session import say

TIMES = 10
LOCAL_SECONDS, LIST_SECONDS = 0.3, 0.5
EMPTY_LIST = b'{"items": []}'
COMPLETION = {"_DISTTEST_COMPLETE": "bash_complete", "COMP_WORDS": "disttest pl", "COMP_CWORD": "1"}


@dataclass(frozen=True, slots=True)
class Start:
    command: Sequence[str]
    code: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)


def measure() -> Iterator[Figure]:
    """Take the least of ten, also as multiples of `python -c pass` and `kubectl version --client` in the same run."""
    with tempfile.TemporaryDirectory() as folder, ThreadingHTTPServer(("127.0.0.1", 0), EmptyList) as server:
        local = _local(reports.write(Path(folder) / "report.json", "sound", 2, name="n"))
        config = Path(folder) / "kubeconfig"
        kubeconfig.write_one(config, f"http://127.0.0.1:{server.server_port}", Path(os.devnull), token="none")  # noqa: S106 - it is not checked
        starts = {
            "pass": Start([sys.executable, "-c", "pass"]),
            "kubectl": Start([*kubernetes.programs(say)["kubectl"], "version", "--client"]),
            "list": Start([*PROGRAM, "list", "--kubeconfig", str(config)]),
        }
        threading.Thread(target=server.serve_forever, daemon=True).start()
        seconds = _least(starts | local)
        server.shutdown()
    yield from (_seconds(name, seconds[name], LOCAL_SECONDS) for name in local)
    yield _seconds("list", seconds["list"], LIST_SECONDS)
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


class EmptyList(BaseHTTPRequestHandler):
    """An API server without objects."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(EMPTY_LIST)))
        self.end_headers()
        self.wfile.write(EMPTY_LIST)

    @override
    def log_message(self, *_: object) -> None:
        pass


def _least(starts: Mapping[str, Start]) -> dict[str, float]:
    """Run them in turns, so that a busy moment affects all of them."""
    seconds = dict.fromkeys(starts, float("inf"))
    for _ in range(TIMES):
        for name, start in starts.items():
            used, _ = reports.used_by(start.command, {**os.environ, **start.environ}, code=start.code)
            seconds[name] = min(seconds[name], used)
    return seconds


def _seconds(name: str, value: float, goal: float) -> Figure:
    return at_most(f"cli_start_{name}", value, "s", goal, digits=3)


def _times(name: str, value: float, goal: float) -> Figure:
    return at_most(f"cli_start_{name}", value, "times", goal, digits=1)
