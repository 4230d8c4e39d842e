"""The compiled suites on 2 nodes x 2 ranks with an empty Inductor cache, as shares of the time of an old commit.

Both run one after the other, since the speed of shared machines changes by half from hour to hour.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure, at_most
from disttest_runner.linux import processes
from tools.demo.session import say

NODES, RANKS = 2, 4
RUN_SECONDS = 1800
ROOT = Path(__file__).parents[1]
SUITES = ("replicate-compile", "data-parallel")
BEFORE = "4238097da54516d9c59c3ee50524000edb696054"  # the last commit before the suites were made faster
PACKAGES = ("runner", "operator", "cli")
MOST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    wall_seconds: float
    cpu_seconds: float  # user and system, of all processes of the run


def measure() -> list[Figure]:
    """Takes about twelve minutes on two idle cores."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as folder:
        before = _before(Path(folder))
        for suite in SUITES:
            name, then, now = suite.replace("-", "_"), run(suite, before), run(suite, {})
            shares = {
                "wall": now.wall_seconds / then.wall_seconds,
                "cpu": now.cpu_seconds / then.cpu_seconds,
            }
            say(f"{suite}: {then.wall_seconds:.0f} s before, {now.wall_seconds:.0f} s now")
            figures += [at_most(f"{name}_{kind}_share", share, "of_before", MOST) for kind, share in shares.items()]
    return figures


def _before(folder: Path) -> dict[str, str]:
    """Unpack that commit; return the environment variables with which its packages are imported."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", BEFORE, *PACKAGES], capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(f"bench: the clone lacks commit {BEFORE[:7]}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return {"PYTHONPATH": os.pathsep.join(str(folder / package) for package in PACKAGES)}


def run(suite: str, environ: Mapping[str, str]) -> Used:
    """Run it below a separate process, whose adopted and reaped children are those of the run."""
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as cache:
        variables = {"CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_CACHE_DIR": cache, **environ}
        command = [sys.executable, "-m", "bench.compiled", suite]
        done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=False)
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
