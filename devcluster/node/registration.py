"""The Node object and its Lease, which keeps it Ready."""

import asyncio
import os

from devcluster.kubeapi import MERGE, STRATEGIC, UNREACHABLE, ApiError, Json, KubeApi
from devcluster.network import KUBELET_PORT
from devcluster.node.status import now, now_precisely

GPU = "nvidia.com/gpu"
CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "100Gi", "pods": "110"}  # made up: for the scheduler
CONDITIONS = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS, RENEW_SECONDS = 40, 10  # as the kubelet's; without renewal a node is NotReady and its pods are evicted
KUBELET_VERSION = "v1.36.3-process"


async def register(api: KubeApi, name: str, address: str, gpus: int) -> None:
    machine = os.uname()
    architecture = ARCHITECTURES.get(machine.machine, machine.machine)
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    try:
        await api.request("POST", "/api/v1/nodes", node)
    except ApiError as error:
        if error.reason != "AlreadyExists":  # this node ran before
            raise
    await api.request("PATCH", f"/api/v1/nodes/{name}/status", _status(name, address, gpus), content_type=STRATEGIC)


def _status(name: str, address: str, gpus: int) -> Json:
    machine = os.uname()
    resources = {**CAPACITY, **({GPU: str(gpus)} if gpus else {})}
    time = now()
    return {
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
            "conditions": [
                {
                    "type": kind,
                    "status": value,
                    "reason": "ProcessNode",
                    "lastHeartbeatTime": time,
                    "lastTransitionTime": time,
                }
                for kind, value in CONDITIONS.items()
            ],
            "nodeInfo": {
                "kubeletVersion": KUBELET_VERSION,
                "containerRuntimeVersion": "process://0",
                "kernelVersion": machine.release,
                "operatingSystem": "linux",
                "architecture": ARCHITECTURES.get(machine.machine, machine.machine),
                **dict.fromkeys(("osImage", "machineID", "systemUUID", "bootID", "kubeProxyVersion"), "process"),
            },
        }
    }


async def keep_lease(api: KubeApi, name: str) -> None:
    while True:
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now_precisely()}
        try:
            await _renew(api, name, spec)
        except (ApiError, *UNREACHABLE) as error:
            print(f"lease: {error!r}", flush=True)
            await asyncio.sleep(1)
        else:
            await asyncio.sleep(RENEW_SECONDS)


async def _renew(api: KubeApi, name: str, spec: Json) -> None:
    try:
        await api.request("PATCH", f"{LEASES}/{name}", {"spec": spec}, content_type=MERGE)
    except ApiError as error:
        if error.status != 404:
            raise
        await api.request("POST", LEASES, {"metadata": {"name": name}, "spec": spec})
