"""The Node object and its Lease, which keeps it Ready."""

import asyncio
import contextlib
import os

from devcluster.controlplane.kubeapi import MERGE, STRATEGIC, Json, KubeApi
from devcluster.machine.settings import KUBELET_PORT
from devcluster.node.status import now, now_precisely
from disttest_operator.core.api.api_errors import AlreadyExistsError, ApiServerError, NotFoundError

GPU = "nvidia.com/gpu"
CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "100Gi"}  # made up: for the scheduler
CONDITIONS = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS, RENEW_SECONDS = 40, 10  # as the kubelet's; without renewal a node is NotReady and its pods are evicted
KUBELET_VERSION = "v1.36.3-process"


async def register(
    api: KubeApi,
    name: str,
    address: str,
    gpus: int,
    *,
    port: int = KUBELET_PORT,
    pods: int = 110,
    reason: str = "ProcessNode",
) -> None:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": _architecture()}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    with contextlib.suppress(AlreadyExistsError):  # this node ran before
        await api.request("POST", "/api/v1/nodes", node)
    resources = {**CAPACITY, "pods": str(pods), **({GPU: str(gpus)} if gpus else {})}
    status = _status(name, address, resources, port, reason)
    await api.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content_type=STRATEGIC)


def _status(name: str, address: str, resources: dict[str, str], port: int, reason: str) -> Json:
    time = now()
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": [
            {"type": kind, "status": value, "reason": reason, "lastHeartbeatTime": time, "lastTransitionTime": time}
            for kind, value in CONDITIONS.items()
        ],
        "nodeInfo": {
            "kubeletVersion": KUBELET_VERSION,
            "containerRuntimeVersion": "process://0",
            "kernelVersion": os.uname().release,
            "operatingSystem": "linux",
            "architecture": _architecture(),
            **dict.fromkeys(("osImage", "machineID", "systemUUID", "bootID", "kubeProxyVersion"), "process"),
        },
    }


def _architecture() -> str:
    machine = os.uname().machine
    return ARCHITECTURES.get(machine, machine)


async def keep_lease(api: KubeApi, name: str, voice: asyncio.Event | None = None) -> None:
    """Renew the Lease forever, except while `voice` is not set."""
    while True:
        if voice:
            await voice.wait()
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now_precisely()}
        try:
            await _renew(api, name, spec)
        except ApiServerError as error:
            print(f"lease: {error}", flush=True)
            await asyncio.sleep(1)
        else:
            await asyncio.sleep(RENEW_SECONDS)


async def _renew(api: KubeApi, name: str, spec: Json) -> None:
    try:
        await api.request("PATCH", f"{LEASES}/{name}", {"spec": spec}, content_type=MERGE)
    except NotFoundError:
        await api.request("POST", LEASES, {"metadata": {"name": name}, "spec": spec})
