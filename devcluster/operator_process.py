"""The operator as a process on this machine, with the rights of its ServiceAccount."""

import contextlib
import math
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from devcluster.kubectl import Kubectl
from devcluster.machine import processes
from devcluster.machine.settings import REPOSITORY, DevClusterError
from disttest_cli.local.agents import free_port

RUNNER_IMAGE = "disttest-runner:dev"
NAMESPACE = "disttest-system"
ACCOUNT = "disttest-operator"
MANIFESTS = REPOSITORY / "manifests"
START = (sys.executable, "-m", "disttest_operator", "--runner-image", RUNNER_IMAGE)
CRD_SECONDS = 30
STOP_SECONDS = 5
LOG_CHARACTERS = 4000  # of the log's end, in an error


class OperatorProcess:
    """One operator, started with `flags`; it appends to `log`."""

    def __init__(self, kubeconfig: Path, log: Path, flags: tuple[str, ...]) -> None:
        self.metrics_port, self.health_port = free_port(), free_port()
        self.log = log
        command = [
            *(*START, "--kubeconfig", str(kubeconfig)),
            *("--metrics-address", f"127.0.0.1:{self.metrics_port}", "--metrics-insecure=true"),
            *("--health-address", f"127.0.0.1:{self.health_port}"),
            *flags,
        ]
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body from the health server; status 0 while it does not listen."""
        return fetch(f"http://127.0.0.1:{self.health_port}{path}")

    def metrics(self) -> dict[str, float]:
        _, text = fetch(f"http://127.0.0.1:{self.metrics_port}/metrics")
        return samples(text)

    def check_running(self) -> None:
        """Raise DevClusterError, with the end of the log, if the operator has ended."""
        if (code := self.process.poll()) is not None:
            raise DevClusterError(f"the operator ended with {code}:\n{self._log_end()}")

    def stop(self, seconds: float = STOP_SECONDS) -> float:
        """Send SIGTERM and return the seconds until the operator ended; raise DevClusterError if that fails."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.kill()
            message = f"the operator did not end within {seconds:g} s of SIGTERM:\n{self._log_end()}"
            raise DevClusterError(message) from error
        if code:
            raise DevClusterError(f"the operator ended with {code}:\n{self._log_end()}")
        return time.monotonic() - started

    def _log_end(self) -> str:
        return self.log.read_text()[-LOG_CHARACTERS:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend the process until the end of the block, as on a machine that is suspended or out of processors."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def install(cluster: Kubectl) -> Path:
    """Apply CRDs, RBAC and policies; return the kubeconfig of the operator's ServiceAccount."""
    if not cluster.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found"):
        cluster.kubectl("create", "namespace", NAMESPACE)
    for part in ("crd", "rbac", "policies"):
        cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / part))
    seconds = math.ceil(cluster.timeout(CRD_SECONDS))
    wait = ("wait", "--for=condition=Established", f"--timeout={seconds}s", "crd")
    cluster.kubectl(*wait, "disttests.disttest.dev", "disttestseries.disttest.dev")
    paths = [f"/apis/disttest.dev/v1alpha1/{plural}" for plural in ("disttests", "disttestseries")]
    # For a moment after a CRD is Established lists and watches are still refused with 429.
    processes.wait_until(
        "objects of both applied CRDs can be listed",
        lambda: all('"items"' in cluster.kubectl("get", "--raw", path, check=False) for path in paths),
        seconds,
    )
    return cluster.kubeconfig_for(NAMESPACE, ACCOUNT)


def samples(text: str) -> dict[str, float]:
    """Values of a scrape by name and labels, as written in the text."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def fetch(url: str) -> tuple[int, str]:
    """Status and body; status 0 if there is no connection."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  # an address of this machine
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
