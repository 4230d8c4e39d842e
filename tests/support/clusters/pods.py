"""Pods for tests of the cluster itself."""

from typing import Any

from tests.support.clusters.cluster import RUNNER_IMAGE, Manifest, SessionCluster

DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
message = os.open("/dev/termination-log", os.O_WRONLY)
os.pwrite(message, b'{"case": 7}'.ljust(4096), 0)
print("deaf", flush=True)
"""
SLEEP_ON = "import time\nwhile True: time.sleep(1)"


def a_container(script: str, **more: Any) -> Manifest:
    return {"name": "main", "image": RUNNER_IMAGE, "command": ["python", "-c", script], **more}


def a_pod(name: str, container: Manifest, **spec: Any) -> Manifest:
    body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"note": "of the pod"}},
        "spec": body,
    }


def field(path: str) -> Manifest:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def pod_status(cluster: SessionCluster, name: str, namespace: str) -> Manifest:
    pod = cluster.get("pod", name, namespace)
    return {} if pod is None else pod["status"]


def container_state(cluster: SessionCluster, name: str, namespace: str) -> Manifest:
    statuses = pod_status(cluster, name, namespace).get("containerStatuses")
    return statuses[0]["state"] if statuses else {}


def run_pod(cluster: SessionCluster, pod: Manifest, namespace: str, timeout_seconds: float = 30) -> Manifest:
    """Its container's end."""
    cluster.apply(pod, namespace)
    name = pod["metadata"]["name"]
    state = lambda: container_state(cluster, name, namespace).get("terminated")  # noqa: E731 - reads best in place
    return cluster.wait_until(f"pod {name} has ended", state, timeout_seconds)
