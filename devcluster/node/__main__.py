"""python -m devcluster.node STATE NAME NUMBER: registers a node and runs the pods that the scheduler binds to it."""

import asyncio
import ipaddress
import shutil
import sys
from collections import deque
from pathlib import Path

from devcluster.controlplane.kubeapi import STRATEGIC, UNREACHABLE, ApiError, Json, KubeApi
from devcluster.machine import settings
from devcluster.node import logs, registration, status
from devcluster.node.container import Container
from devcluster.node.pod import Pod

FIRST_POD_ADDRESS = 10
RETRY_SECONDS = 0.5
FINAL_PHASES = ("Succeeded", "Failed")


class ProcessNode:
    def __init__(self, api: KubeApi, state: Path, name: str, number: int) -> None:
        wanted = settings.load(state / "settings.json")
        self.api = api
        self.name = name
        self.address = settings.node_address(number)
        self.directory = state / "nodes" / name
        self.images = {image.name: image for image in wanted.images}
        self.visible = wanted.visible()
        self.gpus = wanted.gpus
        self._free_gpus = set(range(wanted.gpus))
        subnet = ipaddress.ip_network(f"{self.address}/24", strict=False)
        self._free_addresses = deque(str(address) for address in list(subnet)[FIRST_POD_ADDRESS:-1])
        self._pods: dict[str, Pod] = {}

    # Addresses and GPUs of pods

    def take_address(self) -> str:
        return self._free_addresses.popleft()

    def return_address(self, address: str) -> None:
        self._free_addresses.append(address)  # last, so that an old connection does not reach a new pod

    def take_gpus(self, spec: Json) -> list[int]:
        limits = [(container.get("resources") or {}).get("limits") or {} for container in spec["containers"]]
        wanted = sum(int(limit.get(registration.GPU, 0)) for limit in limits)
        if wanted > len(self._free_gpus):
            raise LookupError(f"requested {wanted} {registration.GPU}, {len(self._free_gpus)} are free on {self.name}")
        taken = sorted(self._free_gpus)[:wanted]
        self._free_gpus.difference_update(taken)
        return taken

    def return_gpus(self, gpus: list[int]) -> None:
        self._free_gpus.update(gpus)

    # Pods

    async def follow_pods(self) -> None:
        async for kind, value in self.api.events("/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}"):
            match kind:
                case "LIST":
                    for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in value}:
                        self._gone(uid)
                    for pod in value:
                        self._seen(pod)
                case "DELETED":
                    self._gone(value["metadata"]["uid"])
                case _:
                    self._seen(value)

    def _seen(self, manifest: Json) -> None:
        meta = manifest["metadata"]
        pod = self._pods.get(meta["uid"])
        phase = manifest.get("status", {}).get("phase", "Pending")
        if pod is None and phase in FINAL_PHASES:
            return
        if pod is None:  # new; or running without us, and then the processes went with the node that ran before
            pod = self._pods[meta["uid"]] = Pod(self, manifest, lost=phase == "Running")
        if "deletionTimestamp" in meta:
            pod.delete(meta["deletionGracePeriodSeconds"])

    def _gone(self, uid: str) -> None:
        """Remove a pod that is no longer in the API; if that was by force, its processes still run."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            pod.delete(0)
            directory = pod.directory
            pod.done.add_done_callback(lambda _: shutil.rmtree(directory, ignore_errors=True))

    def find_container(self, namespace: str, pod_name: str, name: str) -> Container | None:
        for pod in self._pods.values():
            for container in (*pod.init, *pod.main):
                if (pod.namespace, pod.name, container.name) == (namespace, pod_name, name):
                    return container
        return None

    # Requests for pods

    async def patch_status(self, path: str, body: Json) -> None:
        await self._insist("PATCH", path, body, content_type=STRATEGIC)

    async def delete_from_api(self, path: str, uid: str) -> None:
        await self._insist("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    async def _insist(self, method: str, path: str, body: Json, content_type: str = "application/json") -> None:
        """Retry until the API server answers: a status must not be lost while it is unreachable."""
        while True:
            try:
                await self.api.request(method, path, body, content_type=content_type)
            except ApiError as error:
                if error.status not in (404, 409):  # the pod is gone, or another one has its name
                    print(error, flush=True)
                return
            except UNREACHABLE as error:
                print(f"{method} {path}: {error!r}", flush=True)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def record_event(self, pod: Json, reason: str, message: str) -> None:
        meta = pod["metadata"]
        time = status.now()
        event = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **{k: meta[k] for k in ("name", "namespace", "uid")}},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": self.name},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        try:
            await self.api.request("POST", f"/api/v1/namespaces/{meta['namespace']}/events", event)
        except (ApiError, *UNREACHABLE) as error:  # events are only for people
            print(f"event {reason}: {error!r}", flush=True)


async def main(state: Path, name: str, number: int) -> None:
    async with KubeApi(state / f"{name}.kubeconfig") as api:
        node = ProcessNode(api, state, name, number)
        await logs.serve(node.address, state / "pki", node.find_container)
        await registration.register(api, name, node.address, node.gpus)
        await asyncio.gather(registration.keep_lease(api, name), node.follow_pods())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
