"""Seconds of whole make targets: `make demo` until its verdict, with warm and with empty caches, and `make test`."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from bench.figure import Figure, at_most
from devcluster.machine import cache, processes
from tools.demo.demo import NAME
from tools.demo.session import ROOT, say

WARM_SECONDS = 100
COLD_SECONDS = 600
TEST_SECONDS = 12 * 60
LIMIT_SECONDS = 3600
PASSED = re.compile(rf"{NAME}: Passed \(")


def measure_demo() -> list[Figure]:
    """Time the second of two, with the caches of `make setup`, since the first may compile byte code."""
    seconds = [seconds_to_verdict(ROOT, {}) for _ in range(2)][-1]
    return [at_most("demo_command_to_verdict_warm", seconds, "s", WARM_SECONDS, digits=1)]


def measure_cold_demo() -> list[Figure]:
    """In a clone of the last commit, with empty caches of uv, Go and DistTest: 4 GB of downloads, 15 GB of disk."""
    cache.root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.root(), prefix="cold-") as name:
        directory = Path(name)
        clone = directory / "clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        folders = {"DISTTEST_CACHE": "disttest", "UV_CACHE_DIR": "uv", "GOCACHE": "go", "GOMODCACHE": "modules"}
        environment = {variable: str(directory / folder) for variable, folder in folders.items()}
        try:
            seconds = seconds_to_verdict(clone, {**environment, "PIP_NO_CACHE_DIR": "1"})
        finally:
            subprocess.run(["chmod", "-R", "u+w", directory], check=False)  # Go's modules are read-only
    return [at_most("demo_command_to_verdict_cold", seconds, "s", COLD_SECONDS, digits=1)]


def seconds_to_verdict(clone: Path, environment: Mapping[str, str]) -> float:
    """Prints each line with its time, so that a run shows which phase took how long."""
    started = time.monotonic()
    found: list[float] = []

    def read(line: str) -> None:
        elapsed = time.monotonic() - started
        say(f"{elapsed:6.1f} {line}")
        if PASSED.match(line):
            found.append(elapsed)

    command = ("make", "-s", "-C", str(clone), "demo")
    process = processes.start_piped(command, env={**os.environ, "HOLD": "", **environment})
    end = threading.Timer(LIMIT_SECONDS, os.killpg, (process.pid, signal.SIGTERM))
    end.start()
    try:
        processes.follow(process, "make demo", read)
    finally:
        end.cancel()
    if not found:
        raise SystemExit("bench: `make demo` ended without a verdict, see above")
    return found[-1]


def measure_test() -> list[Figure]:
    """Time `make test` on a machine that does nothing else, with warm caches; tests that fail end the benchmark."""
    started = time.monotonic()
    code = subprocess.run(["make", "-C", ROOT, "test"], check=False).returncode
    seconds = time.monotonic() - started
    if code:
        raise SystemExit(f"bench: `make test` ended with exit code {code} after {seconds:.0f} s")
    return [at_most("make_test", seconds, "s", TEST_SECONDS, digits=0)]
