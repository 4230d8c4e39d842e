"""A fresh cluster with stub nodes and our CRDs, and the two processes that are compared on it.

They are the operator, and the minimal client that does the same by hand. The API server records the operator's writes.
"""

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.controlplane.lifecycle import DevCluster, write_audit_policy
from devcluster.kubectl import Kubectl
from devcluster.machine import processes
from devcluster.machine.settings import ClusterSettings
from devcluster.operator_process import ACCOUNT, OperatorProcess, install
from devcluster.operator_process import NAMESPACE as OPERATOR_NAMESPACE
from devcluster.programs import kubernetes
from tools.demo.session import say

USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{ACCOUNT}"
NAMESPACE = "bench"
STUBS = 20
WRITES = ("create", "update", "patch", "delete")
# With the response, whose resourceVersion shows whether the write changed anything.
AUDIT_RULE = {"level": "RequestResponse", "users": [USER], "verbs": list(WRITES)}
REQUEST = re.compile(r'^disttest_api_requests_total\{code="(\w+)",resource="([^"]+)",verb="(\w+)"\}$')
READY_SECONDS = 120.0
FLAGS = ("--lease-namespace", OPERATOR_NAMESPACE, "--log-level", "warning")


@dataclass(frozen=True, slots=True)
class Writes:
    """The operator's writes, as the API server recorded them."""

    by_kind: Counter[str]  # such as "create jobs": those that succeeded
    refused: Counter[str]  # such as "patch disttests/status 409"
    unchanged: list[str]  # those that changed nothing


@dataclass(frozen=True, slots=True)
class BenchCluster:
    cluster: Kubectl
    dev: DevCluster
    kubeconfig: Path  # of the operator's ServiceAccount

    @property
    def directory(self) -> Path:
        return self.cluster.directory

    def create_namespace(self, name: str) -> None:
        """Create it and wait for its ServiceAccount: the API server refuses pods until then."""
        self.cluster.kubectl("create", "namespace", name)
        wait = ("wait", "--for=create", "serviceaccount/default", f"--timeout={READY_SECONDS:.0f}s")
        self.cluster.kubectl(*wait, "--namespace", name)

    def writes(self) -> Writes:
        by_kind: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        unchanged, seen = [], set()
        for event in self.dev.audit_events():
            target = event["objectRef"]
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            words, code = f"{event['verb']} {resource}", event["responseStatus"]["code"]
            if code >= 400:
                refused[f"{words} {code}"] += 1
                continue
            by_kind[words] += 1
            version = _version(event)
            if event["verb"] != "delete" and version in seen:
                unchanged.append(f"{words} {target.get('name')}: resourceVersion {version} as before")
            seen.add(version)
        return Writes(by_kind, refused, unchanged)


def _version(event: dict[str, Any]) -> str:
    """Return the resourceVersion; a write that changes nothing has that of an earlier write."""
    meta = (event.get("responseObject") or {}).get("metadata") or {}
    return str(meta.get("resourceVersion") or event["auditID"])


@contextlib.contextmanager
def fresh(*, is_audited: bool = True) -> Iterator[BenchCluster]:
    """Start a cluster that ends with this process."""
    programs = kubernetes.programs(say)
    folder = Path(tempfile.mkdtemp(prefix="bench-operator-"))
    policy = write_audit_policy(folder / "audit-policy.json", AUDIT_RULE) if is_audited else ""
    dev = DevCluster(folder / "state")
    dev.start(ClusterSettings(programs=programs, nodes=0, stubs=STUBS, gpus=8, audit_policy=policy), owned=True)
    try:
        kubectl = Kubectl(dev.kubeconfig, folder, programs["kubectl"])
        where = BenchCluster(kubectl, dev, install(kubectl))
        where.create_namespace(NAMESPACE)
        yield where
    finally:
        dev.stop()
        shutil.rmtree(folder, ignore_errors=True)


def rss_mb(pid: int, *, is_peak: bool = False) -> float:
    name = "VmHWM" if is_peak else "VmRSS"
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1000 if found else 0.0


def reported_writes(operator: OperatorProcess) -> Counter[str]:
    """Successful writes by verb and resource, from the operator's own metric."""
    found: Counter[str] = Counter()
    for name, value in operator.metrics().items():
        if (match := REQUEST.match(name)) and match[1].startswith("2") and match[3] in WRITES:
            found[f"{match[3]} {match[2]}"] += int(value)
    return found


@contextlib.contextmanager
def operator(kubeconfig: Path, log: Path, *flags: str) -> Iterator[OperatorProcess]:
    process = OperatorProcess(kubeconfig, log, (*FLAGS, *flags))
    try:
        wait_until_active(process)
        yield process
    finally:
        process.kill()


def wait_until_active(process: OperatorProcess) -> None:
    """Wait until its caches are filled and it holds the Lease."""

    def is_active() -> bool:
        process.check_running()
        return process.get("/readyz")[0] == 200 and process.metrics().get("disttest_leader") == 1.0

    processes.wait_until("the operator is active", is_active, READY_SECONDS)


@contextlib.contextmanager
def minimal(kubeconfig: Path, log: Path, *namespace: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the minimal client for one namespace; if none is given, for all."""
    command = [sys.executable, "-m", "bench.operator.minimal", str(kubeconfig), *namespace]
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        processes.wait_until("the minimal client watches", lambda: _is_ready(process, log), READY_SECONDS)
        yield process
    finally:
        process.kill()
        process.wait()


def _is_ready(process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise SystemExit(f"bench: the minimal client ended:\n{log.read_text()[-3000:]}")
    return b"ready" in log.read_bytes()
