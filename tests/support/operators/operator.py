"""The operator as a process on this machine, the runs that tests give it, and what they read of them."""

import contextlib
import functools
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import patience
from tests.support.clusters.cluster import RUNNER_IMAGE, SessionCluster
from tests.support.paths import ROOT

STOP_SECONDS = 5  # within which an operator ends when told to
READY_SECONDS = 40
MANIFESTS = ROOT / "manifests"
NAMESPACE = "disttest-system"
ACCOUNT = "disttest-operator"
START = (sys.executable, "-m", "disttest_operator", "--runner-image", RUNNER_IMAGE)
TIMEOUTS = {"queueSeconds": 60, "joinSeconds": 60, "caseSeconds": 30, "runSeconds": 120}
Status = dict[str, Any]


class OperatorProcess:
    """One operator; its log is shown where a test fails to see it do what it should."""

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
        """Of the health server; 0 while it does not listen."""
        return fetch(f"http://127.0.0.1:{self.health_port}{path}")

    def metrics(self) -> dict[str, float]:
        _, text = fetch(f"http://127.0.0.1:{self.metrics_port}/metrics")
        return samples(text)

    def stop(self) -> float:
        """SIGTERM; tells how long it took. One that does not obey in time fails the test."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(patience.stretched(STOP_SECONDS))
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"the operator did not end within {STOP_SECONDS} s of SIGTERM:\n{self.log.read_text()[-4000:]}")
        assert code == 0, self.log.read_text()[-4000:]
        return time.monotonic() - begun

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It does nothing, and does not know it: as on a machine that is suspended, or out of processors."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


StartOperator = Callable[..., contextlib.AbstractContextManager[OperatorProcess]]


def install(cluster: SessionCluster) -> Path:
    """CRDs, rights and policies; gives the kubeconfig of the operator's ServiceAccount."""
    if not cluster.get("namespace", NAMESPACE):
        cluster.kubectl("create", "namespace", NAMESPACE)
    for part in ("crd", "rbac", "policies"):
        cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / part))
    wait = ("wait", "--for=condition=Established", f"--timeout={patience.whole(30)}s", "crd")
    cluster.kubectl(*wait, "disttests.disttest.dev", "disttestseries.disttest.dev")
    for plural in ("disttests", "disttestseries"):
        cluster.wait_until(f"{plural} are stored", functools.partial(_is_stored, cluster, plural))
    return cluster.kubeconfig_for(NAMESPACE, ACCOUNT)


def _is_stored(cluster: SessionCluster, plural: str) -> bool:
    """A moment after a CRD is Established; until then lists and watches are refused with 429."""
    return '"items"' in cluster.kubectl("get", "--raw", f"/apis/disttest.dev/v1alpha1/{plural}", check=False)


@contextlib.contextmanager
def running(cluster: SessionCluster, kubeconfig: Path, log: Path, *flags: str) -> Iterator[OperatorProcess]:
    """An operator that is ready; it is ended at the end."""
    operator = OperatorProcess(kubeconfig, log, flags)
    try:
        cluster.wait_until("operator is ready", lambda: is_ready(operator), timeout_seconds=READY_SECONDS)
        yield operator
    finally:
        if operator.process.poll() is None:
            operator.stop()


def is_ready(operator: OperatorProcess) -> bool:
    if operator.process.poll() is not None:
        pytest.fail(f"the operator ended with {operator.process.returncode}:\n{operator.log.read_text()[-4000:]}")
    return operator.get("/readyz")[0] == 200


def disttest(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    """Two pods with two ranks each, over gloo, and one gang, unless said otherwise."""
    return {
        "apiVersion": "disttest.dev/v1alpha1",
        "kind": "DistTest",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "suites": [{"name": "collectives"}],
            "nodes": 2,
            "gpusPerNode": 0,
            "ranksPerNode": 2,
            "retries": {"infrastructure": 0},
            "timeouts": {name: patience.whole(seconds) for name, seconds in TIMEOUTS.items()},
            **spec,
        },
    }


def config_map(namespace: str, name: str, text: str) -> dict[str, Any]:
    """Test files for a suite."""
    data = {"test_own.py": text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def finished(cluster: SessionCluster, namespace: str, name: str, timeout_seconds: float = 60) -> Status:
    """The status of the run once it has its verdict."""
    seen: Status = {}

    def probe() -> Status | None:
        nonlocal seen
        seen = (cluster.get("disttest", name, namespace) or {}).get("status") or {}
        return seen if seen.get("verdict") else None

    return cluster.wait_until(f"{name} is finished", probe, timeout_seconds)


def events_with(reason: str, cluster: SessionCluster, namespace: str) -> list[tuple[str, str]]:
    """Reason and note of the DistTests' events, sorted, once one has this reason: it is created after the status."""

    def probe() -> list[tuple[str, str]]:
        events = cluster.find("events.events.k8s.io", namespace)
        seen = sorted((one["reason"], one["note"]) for one in events if one["regarding"].get("kind") == "DistTest")
        return seen if reason in dict(seen) else []

    return cluster.wait_until(f"event {reason} in {namespace}", probe, 10)


def reaches_phase(cluster: SessionCluster, namespace: str, name: str, phase: str, timeout_seconds: float = 30) -> None:
    def probe() -> bool:
        status = (cluster.get("disttest", name, namespace) or {}).get("status") or {}
        return bool(status.get("phase") == phase)

    cluster.wait_until(f"{name} is {phase}", probe, timeout_seconds)


def ledger(cluster: SessionCluster, namespace: str, series: str) -> Status:
    body = cluster.get("disttestseries", series, namespace)
    return (body or {}).get("status") or {}


def run_counts(status: Status) -> dict[tuple[str, str], int]:
    rows = (status.get("totals") or {}).get("runs") or []
    return {(row["verdict"], row["reason"]): row["count"] for row in rows}


def samples(text: str) -> dict[str, float]:
    """Of a scrape, by name and labels, as they stand in the text."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  # an address of this machine
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
