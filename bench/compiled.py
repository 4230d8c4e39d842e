"""What the compiled suites take on 2 nodes x 2 ranks, with an empty Inductor cache and with the one left behind."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from disttest_runner import processes

NODES, RANKS = 2, 4
RUN_SECONDS = 1800

SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    wall_seconds: float
    cpu_seconds: float  # user and system, of all processes of the run


# Before the suites were made faster (commit 4238097), torch 2.13, two cores. Seconds: of 2 pods x 2 ranks in the demo.
# CPU seconds: of `disttest run` with an empty cache, measured as below on a machine that did other work as well.
BEFORE = {
    "replicate-compile": Used(wall_seconds=204, cpu_seconds=426.5),
    "data-parallel": Used(wall_seconds=268, cpu_seconds=583.1),
}


def measure() -> list[Figure]:
    """About ten minutes on two quiet cores."""
    figures = []
    totals: dict[str, list[Used]] = {"cold": [], "warm": []}
    for suite, before in BEFORE.items():
        with tempfile.TemporaryDirectory(prefix="disttest-bench-") as cache:
            for state, found in totals.items():
                found.append(run(suite, cache))
                figures += _figures(f"{suite.replace('-', '_')}_{state}", found[-1], before)
    for state, found in totals.items():
        figures += _figures(f"compiled_suites_{state}", _sum(found), _sum(BEFORE.values()))
    return figures


def _sum(runs: Iterable[Used]) -> Used:
    walls, cpus = zip(*((run.wall_seconds, run.cpu_seconds) for run in runs), strict=True)
    return Used(wall_seconds=sum(walls), cpu_seconds=sum(cpus))


def _figures(name: str, used: Used, before: Used) -> list[Figure]:
    values = {
        "wall": (used.wall_seconds, before.wall_seconds),
        "cpu": (used.cpu_seconds, before.cpu_seconds),
    }
    return [
        Figure(name=f"{name}_{kind}", value=round(now, 1), unit="s", compare="<=", goal=round(SHARE * then, 1))
        for kind, (now, then) in values.items()
    ]


def run(suite: str, cache: str) -> Used:
    """In a process of its own: what it has adopted and waited for is what the run used."""
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_CACHE_DIR": cache}
    command = [sys.executable, "-m", "bench.compiled", suite]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {suite} ended with exit code {done.returncode}:\n{done.stdout}")
    wall, cpu = done.stdout.split()[-2:]
    return Used(wall_seconds=float(wall), cpu_seconds=float(cpu))


def main(suite: str) -> int:
    processes.adopt_orphans()  # agents kill zygotes without waiting for them
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as folder:
        shape = ("--suite", suite, "--nodes", str(NODES), "--ranks", str(RANKS), "--timeout", str(RUN_SECONDS))
        command = [sys.executable, "-m", "disttest_cli.main", "run", *shape, "--report", str(Path(folder, "report"))]
        code = subprocess.run(command, check=False).returncode
    wall_seconds = time.monotonic() - started
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{wall_seconds:.2f} {used.ru_utime + used.ru_stime:.2f}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
