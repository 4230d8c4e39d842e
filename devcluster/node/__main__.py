"""python -m devcluster.node STATE NAME NUMBER: registers a node and runs the pods that the scheduler binds to it."""

import asyncio
import shutil
import sys
from pathlib import Path

from devcluster.controlplane.kubeapi import Json, KubeApi
from devcluster.node import logs, registration
from devcluster.node.container import Container
from devcluster.node.pod import Node, Pod

FINAL_PHASES = ("Succeeded", "Failed")


class Pods:
    """The pods of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._pods: dict[str, Pod] = {}

    async def follow(self) -> None:
        bound = f"spec.nodeName={self._node.name}"
        await self._node.api.follow("/api/v1/pods", self._seen, self._gone, fieldSelector=bound)

    def _seen(self, manifest: Json) -> None:
        meta = manifest["metadata"]
        pod = self._pods.get(meta["uid"])
        phase = manifest.get("status", {}).get("phase", "Pending")
        if pod is None and phase in FINAL_PHASES:
            return
        if pod is None:  # new; or running without us, and then the processes went with the node that ran before
            pod = self._pods[meta["uid"]] = Pod(self._node, manifest, lost=phase == "Running")
        if "deletionTimestamp" in meta:
            pod.delete(meta["deletionGracePeriodSeconds"])

    def _gone(self, manifest: Json) -> None:
        """Remove a pod that is no longer in the API; if that was by force, its processes still run."""
        pod = self._pods.pop(manifest["metadata"]["uid"], None)
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


async def main(state: Path, name: str, number: int) -> None:
    async with KubeApi(state / f"{name}.kubeconfig") as api:
        node = Node(api, state, name, number)
        pods = Pods(node)
        await logs.serve(node.address, state / "pki", pods.find_container)
        await registration.register(api, name, node.address, node.gpus)
        await asyncio.gather(registration.keep_lease(api, name), pods.follow())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
