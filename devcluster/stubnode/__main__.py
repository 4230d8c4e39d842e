"""python -m devcluster.stubnode STATE COUNT: one process that is COUNT nodes, whose pods only change their status."""

import argparse
import asyncio
from pathlib import Path

from aiohttp import web

from devcluster.controlplane import kubeconfig
from devcluster.controlplane.kubeapi import MERGE, Json, KubeApi
from devcluster.machine import settings
from devcluster.machine.settings import GATEWAY, STUB_PORT
from devcluster.node import logs, registration
from devcluster.stubnode.behaviour import NODE, SILENT
from devcluster.stubnode.pods import Pods

PODS_OF_A_NODE = 2000


class StubNodes:
    def __init__(self, api: KubeApi, names: tuple[str, ...], gpus: int) -> None:
        self._api = api
        self._gpus = gpus
        self._voices = {name: asyncio.Event() for name in names}
        for voice in self._voices.values():
            voice.set()
        self.pods = Pods(api, GATEWAY, self._voices.get)

    async def register(self, *, taint: bool) -> None:
        for name in self._voices:
            await registration.register(
                self._api, name, GATEWAY, self._gpus, port=STUB_PORT, pods=PODS_OF_A_NODE, reason="StubNode"
            )
            mark = [{"key": NODE, "value": "true", "effect": "NoSchedule"}] if taint else []
            body = {"metadata": {"labels": {NODE: "true"}}, **({"spec": {"taints": mark}} if taint else {})}
            await self._api.request("PATCH", f"/api/v1/nodes/{name}", body, content_type=MERGE)

    async def follow_nodes(self) -> None:
        """Silence nodes, and let them speak again, as their annotations say."""
        await self._api.follow("/api/v1/nodes", self._obey, labelSelector=NODE)

    def _obey(self, node: Json) -> None:
        voice = self._voices.get(node["metadata"]["name"])
        silent = (node["metadata"].get("annotations") or {}).get(SILENT)
        if voice and silent == "true":
            voice.clear()
        elif voice and silent == "false":
            voice.set()

    async def keep_leases(self) -> None:
        tasks = [registration.keep_lease(self._api, name, voice) for name, voice in self._voices.items()]
        await asyncio.gather(*tasks)


async def _serve(address: str, pki: Path, pods: Pods) -> None:
    """The log of a container, for the API server only."""

    async def answer(request: web.Request) -> web.Response:
        log = pods.log(request.match_info["namespace"], request.match_info["pod"])
        if log is None:
            return web.Response(status=404, text="no such container on this node")
        limit = int(request.query.get("limitBytes") or len(log))
        return web.Response(text=log[:limit])

    await logs.listen(address, STUB_PORT, pki, answer)


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devcluster.stubnode", description=__doc__)
    parser.add_argument(
        "state", type=Path, help="State directory of a running cluster. Start this process in its network"
    )
    parser.add_argument("count", type=int)
    parser.add_argument("--gpus", type=int, default=0, help="Number of nvidia.com/gpu per node")
    parser.add_argument("--taint", action="store_true", help=f"Add the taint {NODE} to the nodes")
    chosen = parser.parse_args()
    async with KubeApi(chosen.state / kubeconfig.INSIDE) as api:
        nodes = StubNodes(api, settings.stub_names(chosen.count), chosen.gpus)
        await _serve(GATEWAY, chosen.state / "pki", nodes.pods)
        await nodes.register(taint=chosen.taint)
        await asyncio.gather(nodes.keep_leases(), nodes.follow_nodes(), nodes.pods.follow())


if __name__ == "__main__":
    asyncio.run(main())
