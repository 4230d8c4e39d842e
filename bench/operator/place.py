"""A fresh cluster with stub nodes, our CRDs and the operator's rights; it writes down what the operator writes."""

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.controlplane.lifecycle import DevCluster
from devcluster.machine.settings import ClusterSettings
from devcluster.programs import kubernetes
from tests.support.clusters import audit
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators import operator
from tools.demo.session import say

OPERATOR_NAMESPACE = operator.NAMESPACE
USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{operator.ACCOUNT}"
NAMESPACE = "bench"
STUBS = 20
WRITES = ("create", "update", "patch", "delete")
# With the answer, whose resourceVersion tells whether the write changed anything.
POLICY = audit.policy({"level": "RequestResponse", "users": [USER], "verbs": list(WRITES)})


@dataclass(frozen=True, slots=True)
class Writes:
    """Of the operator, as the API server saw them."""

    by_kind: Counter[str]  # "create jobs" -> number of those that were carried out
    refused: Counter[str]  # "patch disttests/status 409"
    idle: list[str]  # those that changed nothing


@dataclass(frozen=True, slots=True)
class BenchCluster:
    cluster: SessionCluster
    dev: DevCluster
    kubeconfig: Path
    """Of the operator's ServiceAccount."""

    @property
    def directory(self) -> Path:
        return self.cluster.directory

    def writes(self) -> Writes:
        by_kind: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        idle, seen = [], set()
        for event in audit.lines(self.dev.state):
            target = event["objectRef"]
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            words, code = f"{event['verb']} {resource}", event["responseStatus"]["code"]
            if code >= 400:
                refused[f"{words} {code}"] += 1
                continue
            by_kind[words] += 1
            version = _version(event)
            if event["verb"] != "delete" and version in seen:
                idle.append(f"{words} {target.get('name')}: resourceVersion {version} as before")
            seen.add(version)
        return Writes(by_kind, refused, idle)


def _version(event: dict[str, Any]) -> str:
    """Unique in the cluster; of a write that changes nothing it is that of an earlier write."""
    meta = (event.get("responseObject") or {}).get("metadata") or {}
    return str(meta.get("resourceVersion") or event["auditID"])


@contextlib.contextmanager
def fresh(*, stubs: int = STUBS, writes_down: bool = True) -> Iterator[BenchCluster]:
    """It ends with this process."""
    programs = kubernetes.programs(say)
    folder = Path(tempfile.mkdtemp(prefix="bench-operator-"))
    policy = audit.write_policy(folder / "audit-policy.json", POLICY)
    dev = DevCluster(folder / "state")
    dev.start(
        ClusterSettings(programs=programs, nodes=0, stubs=stubs, gpus=8, audit_policy=policy if writes_down else ""),
        owned=True,
    )
    try:
        yield _install(SessionCluster(dev.kubeconfig, folder, programs["kubectl"], dev), dev)
    finally:
        dev.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _install(cluster: SessionCluster, dev: DevCluster) -> BenchCluster:
    cluster.kubectl("create", "namespace", NAMESPACE)
    kubeconfig = operator.install(cluster)
    cluster.wait_until("default ServiceAccount", lambda: cluster.get("serviceaccount", "default", NAMESPACE))
    return BenchCluster(cluster, dev, kubeconfig)
