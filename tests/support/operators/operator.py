"""The operator as a process on this machine, the runs that tests give it, and what they read of them."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from devcluster.operator_process import (
    ACCOUNT,
    MANIFESTS,
    NAMESPACE,
    START,
    STOP_SECONDS,
    OperatorProcess,
    fetch,
    install,
    samples,
)
from disttest_cli.local.agents import free_port
from tests.support import patience
from tests.support.clusters.cluster import SessionCluster

__all__ = [
    "ACCOUNT",
    "MANIFESTS",
    "NAMESPACE",
    "START",
    "STOP_SECONDS",
    "OperatorProcess",
    "fetch",
    "free_port",
    "install",
    "samples",
]

READY_SECONDS = 40
TIMEOUTS = {"queueSeconds": 60, "rendezvousSeconds": 60, "caseSeconds": 30, "runSeconds": 120}
Status = dict[str, Any]


StartOperator = Callable[..., contextlib.AbstractContextManager[OperatorProcess]]


@contextlib.contextmanager
def running(cluster: SessionCluster, kubeconfig: Path, log: Path, *flags: str) -> Iterator[OperatorProcess]:
    """An operator that is ready; it is ended at the end."""
    operator = OperatorProcess(kubeconfig, log, flags)
    try:
        cluster.wait_until("operator is ready", lambda: is_ready(operator), timeout_seconds=READY_SECONDS)
        yield operator
    finally:
        if operator.process.poll() is None:
            operator.stop(patience.stretched(STOP_SECONDS))


def is_ready(operator: OperatorProcess) -> bool:
    operator.check_running()
    return operator.get("/readyz")[0] == 200


def leads(operator: OperatorProcess) -> bool:
    return operator.metrics().get("disttest_leader") == 1


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


def patch_spec(cluster: SessionCluster, namespace: str, name: str, *, kind: str = "disttest", **spec: Any) -> None:
    cluster.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps({"spec": spec}))


def write_ledger(cluster: SessionCluster, namespace: str, series: str, **status: Any) -> None:
    """Create a DistTestSeries if there is none, and set fields of its status."""
    kind = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTestSeries"}
    cluster.apply(kind | {"metadata": {"name": series, "namespace": namespace}})
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    cluster.kubectl("patch", "disttestseries", series, "-n", namespace, *patch)


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
