"""A cluster of real nodes with everything installed, as `make e2e` uses it."""

import base64
import contextlib
import functools
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from devcluster import real_node_setup
from devcluster.controlplane.lifecycle import DevCluster, write_audit_policy
from devcluster.machine import cache
from devcluster.machine.settings import ClusterSettings
from devcluster.programs import kubernetes
from devcluster.programs.gobuild import Say
from tests.support import patience
from tests.support.clusters import audit
from tests.support.clusters.cluster import Manifest, SessionCluster, running_venv
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
NAMESPACE = "disttest-e2e"  # of runs, as the overlay names it
SYSTEM = "disttest-system"
REAL_NODES = ("real1", "real2")
PROCESS_NODE = "node1"
PROCESS_TAINT = "disttest.dev/process-node"
ROLLOUT_SECONDS = 90
READY_SECONDS = 60


@contextlib.contextmanager
def fresh(directory: Path, say: Say) -> Iterator[SessionCluster]:
    """Two real nodes and a tainted process node; everything ends with this process, however that ends."""
    dev = DevCluster(cache.cluster("e2e"))
    real = real_node_setup.real_nodes(len(REAL_NODES), dev.state, say)
    programs = kubernetes.programs(say)
    names = ("disttest-runner", "disttest-operator")
    images = running_venv(*(f"registry.devcluster/{name}:dev" for name in names))
    policy = write_audit_policy(directory / "audit-policy.json", *audit.OF_RIGHTS)
    dev.start(ClusterSettings(programs=programs, nodes=1, images=images, real=real, audit_policy=policy), owned=True)
    try:
        cluster = SessionCluster(dev.kubeconfig, directory, programs["kubectl"], dev)
        cluster.kubectl("taint", "node", PROCESS_NODE, f"{PROCESS_TAINT}=:NoSchedule")
        yield cluster
    finally:
        dev.stop()


def install(cluster: SessionCluster) -> None:
    """By `kubectl apply -k` and nothing else; back when the operator is ready."""
    overlay = str(MANIFESTS / "overlays" / "e2e")
    cluster.kubectl("apply", "-k", overlay)
    wait_for_rollout(cluster)


def wait_for_rollout(cluster: SessionCluster) -> None:
    limit = f"--timeout={patience.whole(ROLLOUT_SECONDS)}s"
    said = cluster.kubectl("-n", SYSTEM, "rollout", "status", "deployment/disttest-operator", limit, check=False)
    if "successfully rolled out" not in said:
        raise AssertionError(f"{said}\n{cluster.kubectl('-n', SYSTEM, 'describe', 'pods')[-4000:]}")


def node_is_ready(cluster: SessionCluster, name: str) -> bool:
    node = cluster.get("node", name)
    conditions = node["status"].get("conditions") or [] if node else []
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and not (node or {})["spec"].get("taints")


def wait_until_ready(cluster: SessionCluster, name: str) -> None:
    cluster.wait_until(f"{name} is Ready", functools.partial(node_is_ready, cluster, name), READY_SECONDS)


def active_operator(cluster: SessionCluster) -> Manifest:
    """The pod that holds the Lease."""
    lease = cluster.get("lease", "disttest-operator", SYSTEM)
    holder = str((lease or {})["spec"]["holderIdentity"])
    pods = cluster.find("pods", SYSTEM, "app.kubernetes.io/name=disttest-operator")
    return next(pod for pod in pods if holder.startswith(pod["metadata"]["name"]))


def node_of_operator(cluster: SessionCluster) -> str:
    return str(active_operator(cluster)["spec"]["nodeName"])


def pods_of(cluster: SessionCluster, run: str) -> list[Manifest]:
    return cluster.find("pods", NAMESPACE, f"disttest.dev/name={run}")


def execute(cluster: SessionCluster, namespace: str, pod: str, *command: str) -> str:
    return cluster.kubectl("exec", "-n", namespace, pod, "--", *command)


def report_of(cluster: SessionCluster, run: str) -> dict[str, Any] | None:
    """The report that the operator stored; None where there is none."""
    stored = ((cluster.get("disttest", run, NAMESPACE) or {}).get("status") or {}).get("report")
    found = cluster.get("configmap", stored["configMap"], NAMESPACE) if stored else None
    if found is None:
        return None
    report: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found["binaryData"]["report.json.gz"])))
    return report
