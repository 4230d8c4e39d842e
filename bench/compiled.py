"""The compiled suites on 2 nodes x 2 ranks with an empty Inductor cache, as shares of the time of an old commit.

Both run one after the other, since the speed of shared machines changes by half from hour to hour.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.figure import Figure, at_most
from bench.runner.gangs import children_cpu_seconds
from devcluster.machine.processes import children
from disttest_runner.linux.processes import adopt_orphans
from tools.demo.session import say
from tools.release import commit

NODES, RANKS = 2, 4
RUN_SECONDS = 1800
END_SECONDS = 60  # after that, for processes that the run leaves behind
SUITES = ("replicate-compile", "data-parallel")
BEFORE = "4238097da54516d9c59c3ee50524000edb696054"  # the last commit before the suites were made faster
PACKAGES = ("runner", "operator", "cli")
MOST = 0.5


def measure() -> list[Figure]:
    """Takes about twelve minutes on two idle cores."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as folder:
        source = commit.export(BEFORE, Path(folder) / "source")
        before = {"PYTHONPATH": os.pathsep.join(str(source / package) for package in PACKAGES)}
        for suite in SUITES:
            name, then, now = suite.replace("-", "_"), run(suite, before), run(suite, {})
            say(f"{suite}: {then['wall']:.0f} s before, {now['wall']:.0f} s now")
            for kind, seconds in now.items():
                figures.append(at_most(f"{name}_{kind}_share", seconds / then[kind], "of_before", MOST))
    return figures


def run(suite: str, environ: Mapping[str, str]) -> dict[str, float]:
    """Return seconds: `wall`, and `cpu`, which is user and system of all processes of the run.

    It runs below a separate process, whose adopted and reaped children are those of the run.
    """
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as cache:
        variables = {"CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_CACHE_DIR": cache, **environ}
        command = [sys.executable, "-m", "bench.compiled", suite]
        done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {suite} ended with exit code {done.returncode}:\n{done.stdout}")
    wall, cpu = done.stdout.split()[-2:]
    return {"wall": float(wall), "cpu": float(cpu)}


def main(suite: str) -> int:
    adopt_orphans()  # agents kill zygotes without waiting for them
    killed: list[int] = []

    def kill_children(*_: object) -> None:
        for pid in children(os.getpid()):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        signal.alarm(1)  # those of the killed ones are children of this process by then

    signal.signal(signal.SIGALRM, kill_children)
    signal.alarm(RUN_SECONDS + END_SECONDS)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as folder:
        shape = ("--suite", suite, "--nodes", str(NODES), "--ranks", str(RANKS), "--timeout", str(RUN_SECONDS))
        command = [sys.executable, "-m", "disttest_cli.main", "run", *shape, "--report", str(Path(folder, "report"))]
        code = subprocess.run(command, check=False).returncode
    wall_seconds = time.monotonic() - started
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    if killed:
        print(f"killed processes {killed}, which had not ended after {RUN_SECONDS + END_SECONDS} s")
    print(f"{wall_seconds:.2f} {children_cpu_seconds():.2f}", flush=True)
    return 1 if killed else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
