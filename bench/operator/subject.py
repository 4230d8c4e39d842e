"""The two that are compared, each a process: the operator, and the minimal client that does the same by hand."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.operator.place import OPERATOR_NAMESPACE, WRITES
from tests.support.operators.operator import OperatorProcess

REQUEST = re.compile(r'^disttest_api_requests_total\{code="(\w+)",resource="([^"]+)",verb="(\w+)"\}$')
READY_SECONDS = 120.0
POLL_SECONDS = 0.05
FLAGS = ("--lease-namespace", OPERATOR_NAMESPACE, "--log-level", "warning")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / 1000 if found else 0.0


def requests(operator: OperatorProcess) -> Counter[str]:
    """By verb and resource, those that were carried out."""
    found: Counter[str] = Counter()
    for name, value in operator.metrics().items():
        if (match := REQUEST.match(name)) and match[1].startswith("2"):
            found[f"{match[3]} {match[2]}"] += int(value)
    return found


def writes(operator: OperatorProcess) -> Counter[str]:
    return Counter({words: n for words, n in requests(operator).items() if words.split()[0] in WRITES})


def wait_for(what: str, condition: Callable[[], bool], seconds: float) -> float:
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise SystemExit(f"bench: not after {seconds:g} s: {what}")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - begun


@contextlib.contextmanager
def operator(kubeconfig: Path, log: Path, *flags: str) -> Iterator[OperatorProcess]:
    process = OperatorProcess(kubeconfig, log, (*FLAGS, *flags))
    try:
        wait_until_active(process)
        yield process
    finally:
        process.kill()


def wait_until_active(process: OperatorProcess, *, seconds: float = READY_SECONDS) -> float:
    """Caches filled and Lease held."""

    def is_active() -> bool:
        check_alive(process)
        return process.get("/readyz")[0] == 200 and process.metrics().get("disttest_leader") == 1.0

    return wait_for("the operator is active", is_active, seconds)


def check_alive(process: OperatorProcess) -> None:
    if process.process.poll() is not None:
        raise SystemExit(f"bench: the operator ended:\n{process.log.read_text()[-3000:]}")


@contextlib.contextmanager
def minimal(kubeconfig: Path, log: Path, *namespace: str) -> Iterator[subprocess.Popen[bytes]]:
    """Of one namespace or, if none is given, of all."""
    command = [sys.executable, "-m", "bench.operator.minimal", str(kubeconfig), *namespace]
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_for("the minimal client watches", lambda: _says_ready(process, log), READY_SECONDS)
        yield process
    finally:
        process.kill()
        process.wait()


def _says_ready(process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise SystemExit(f"bench: the minimal client ended:\n{log.read_text()[-3000:]}")
    return b"ready" in log.read_bytes()
