"""Cluster DNS: A records from Services and EndpointSlices.

SERVICE.NS.svc.cluster.local            every ready endpoint (all of them with publishNotReadyAddresses)
HOSTNAME.SERVICE.NS.svc.cluster.local   the endpoint of that hostname

There is no kube-proxy, so a Service with a ClusterIP is answered with the addresses of its pods, like a headless one.
"""

import asyncio
import socket
import struct
import sys
from pathlib import Path

from devcluster.controlplane.kubeapi import Json, KubeApi
from devcluster.machine.settings import GATEWAY

DOMAIN = ("svc", "cluster", "local")
PORT = 53
TTL_SECONDS = 1  # pods start and end while others resolve their names
MOST_ANSWERS = 25  # what fits into 512 bytes: there is no TCP to fall back to
TYPE_A, NO_ERROR, NAME_ERROR = 1, 0, 3
RESPONSE = 0x8580  # a response, authoritative, recursion asked for and claimed: some resolvers insist
HEADER_BYTES = 12
LARGEST_QUERY_BYTES = 512

Key = tuple[str, str]


class DnsRecords:
    """Services and EndpointSlices by namespace and name."""

    def __init__(self) -> None:
        self.services: dict[Key, Json] = {}
        self.slices: dict[Key, Json] = {}

    def lookup(self, name: str) -> list[str] | None:
        """Return the addresses of a name; None if it does not exist."""
        labels = name.rstrip(".").lower().split(".")
        if tuple(labels[-3:]) != DOMAIN or len(labels) not in (5, 6):
            return None
        *host, service, namespace = labels[:-3]
        known = self.services.get((namespace, service))
        if known is None:
            return None
        unready_too = known["spec"].get("publishNotReadyAddresses", False)
        found: set[str] = set()
        for endpoint in self._endpoints(namespace, service):
            ready = endpoint.get("conditions", {}).get("ready", True)
            if (ready or unready_too) and (not host or endpoint.get("hostname") == host[0]):
                found.update(endpoint["addresses"])
        return sorted(found) or None

    def _endpoints(self, namespace: str, service: str) -> list[Json]:
        return [
            endpoint
            for (slice_namespace, _), piece in self.slices.items()
            if slice_namespace == namespace
            and piece["metadata"].get("labels", {}).get("kubernetes.io/service-name") == service
            for endpoint in piece.get("endpoints") or []
        ]


async def follow(api: KubeApi, path: str, store: dict[Key, Json]) -> None:
    await api.follow(path, lambda item: store.update({_key(item): item}), lambda item: store.pop(_key(item), None))


def _key(item: Json) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def answer(query: bytes, records: DnsRecords) -> bytes:
    """Return the response to a query packet; a malformed one raises IndexError, struct.error or UnicodeDecodeError."""
    labels, at = [], HEADER_BYTES
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii"))
        at += length + 1
    (wanted,) = struct.unpack(">H", query[at + 1 : at + 3])
    question = query[HEADER_BYTES : at + 5]
    addresses = records.lookup(".".join(labels))
    code = NAME_ERROR if addresses is None else NO_ERROR
    chosen = addresses[:MOST_ANSWERS] if addresses and wanted == TYPE_A else []
    head = query[:2] + struct.pack(">HHHHH", RESPONSE | code, 1, len(chosen), 0, 0)
    # 0xC00C points at the name in the question
    rows = [struct.pack(">HHHIH", 0xC00C, TYPE_A, 1, TTL_SECONDS, 4) + socket.inet_aton(a) for a in chosen]
    return head + question + b"".join(rows)


async def serve(records: DnsRecords) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.setblocking(False)
        listener.bind((GATEWAY, PORT))
        while True:
            query, client = await loop.sock_recvfrom(listener, LARGEST_QUERY_BYTES)
            try:
                await loop.sock_sendto(listener, answer(query, records), client)
            except (IndexError, struct.error, UnicodeDecodeError, OSError) as error:
                print(f"query from {client}: {error!r}", flush=True)


async def main(kubeconfig: Path) -> None:
    records = DnsRecords()
    async with KubeApi(kubeconfig) as api:
        await asyncio.gather(
            serve(records),
            follow(api, "/api/v1/services", records.services),
            follow(api, "/apis/discovery.k8s.io/v1/endpointslices", records.slices),
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
