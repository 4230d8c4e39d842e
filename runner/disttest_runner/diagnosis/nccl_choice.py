"""Reads from NCCL's log which network and connections NCCL chose. Pure.

The lines are from NCCL's sources and those of its plugins; each pattern names the versions that print it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from disttest_contract.results.network_transport import WORST_FIRST, NetworkTransport, TransportFacts

# "Using network IB": NCCL 2.6 to 2.32, when a communicator is created. The name is that of the plugin, which has spaces
# in "AWS Libfabric".
CHOSEN = re.compile(r"NCCL INFO Using network (?P<name>\S.{0,62}\S)[ \t\r]*$", re.MULTILINE)
# "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(3)/GDRDMA(PCI)/Shared": NCCL 2.18 to 2.32. NCCL 2.17 prints bus IDs
# in the brackets and no "/0". "(3)" is the rank whose adapter is used (PXN), "(PCI)" is from 2.27. From 2.22 on, it is
# printed at the first collective and not when the communicator is created. SHARP's "via COLLNET/" comes in addition.
NET = re.compile(r" via NET/(?P<name>[^/\n]{1,64})(?P<rest>/\d[^\n]{0,80})?")
# "via P2P/CUMEM/read", "via P2P/IPC", "via P2P/direct pointer", "via P2P/MNNVL"; "via SHM/direct/direct".
INNER = re.compile(r" via (?P<kind>P2P|SHM)/")
# "16 coll channels, 0 collnet channels, 16 nvls channels, …": NCCL 2.18 to 2.32; 2.17 has no collnet channels.
NVLS = re.compile(r"coll channels, (?:\d+ collnet channels, )?[1-9]\d* nvls channels")
GPU_DIRECT = "/GDRDMA"
# Versions of plugins: "NET/OFI Initializing aws-ofi-nccl 1.14.0" (before 1.7 "Using aws-ofi-nccl 1.5.0aws"),
# "Initializing network FasTrak, version: 1.0.17". Both are printed before their network is used.
VERSION = re.compile(
    r"(?P<ofi>aws-ofi-[nr]ccl \S{1,32})|Initializing network (?P<name>\S{1,32}), version: (?P<version>\S{1,32})"
)
# "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)"; before 1.7 "Selected Provider is efa (found …".
PROVIDER = re.compile(r"NET/OFI Selected (?:Provider|provider) is (?P<name>[^\s,]{1,32})")
LIBFABRIC = "Libfabric"
# Of libfabric: they use TCP or UDP, not the fabric of the machine.
SLOW_PROVIDERS = frozenset({"tcp", "sockets", "tcp;ofi_rxm", "udp", "net"})

# By the beginning of a network's name. Every other name is a plugin's.
BY_NETWORK: Mapping[str, NetworkTransport] = {
    "IBext": NetworkTransport.RDMA,  # IBext_v8 …: NVIDIA's plugin of HPC-X, over verbs
    "IB": NetworkTransport.RDMA,  # NCCL's own, over verbs: InfiniBand and RoCE
    "gIB": NetworkTransport.RDMA,  # Google's, over verbs
    "Socket": NetworkTransport.TCP,  # NCCL's own
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclChoice:
    """What was printed, in any order."""

    chosen: frozenset[str] = frozenset()  # networks of communicators
    connected: frozenset[str] = frozenset()  # networks of connections
    inner: frozenset[str] = frozenset()  # P2P, SHM, NVLS
    providers: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    gpu_direct: frozenset[bool] = frozenset()  # whether a connection uses it

    def merge(self, other: Self) -> Self:
        return type(self)(**{one.name: getattr(self, one.name) | getattr(other, one.name) for one in fields(self)})


NOTHING = NcclChoice()


def read(text: str) -> NcclChoice:
    """Read a part of a log."""
    net = list(NET.finditer(text)) if " via " in text else []
    inner = {found["kind"] for found in INNER.finditer(text)} | ({"NVLS"} if NVLS.search(text) else set())
    versions = (found["ofi"] or f"{found['name']} {found['version']}" for found in VERSION.finditer(text))
    return NcclChoice(
        chosen=frozenset(found["name"] for found in CHOSEN.finditer(text)),
        connected=frozenset(found["name"] for found in net),
        inner=frozenset(inner),
        providers=frozenset(found["name"] for found in PROVIDER.finditer(text)),
        versions=frozenset(versions),
        gpu_direct=frozenset(GPU_DIRECT in (found["rest"] or "") for found in net),
    )


def facts(choice: NcclChoice, *, nodes: int) -> TransportFacts:
    """Return what a rank uses. A network that was chosen but has no connection counts only if nothing else connects.

    On one node NCCL chooses a network too, and does not use it.
    """
    used = choice.connected or (frozenset() if choice.inner or nodes == 1 else choice.chosen)
    network = min(sorted(used), key=lambda name: WORST_FIRST.index(_kind(name, choice)), default="")
    transport = _kind(network, choice) if network else NetworkTransport.LOCAL
    has_plugin = transport is NetworkTransport.PLUGIN or LIBFABRIC in network
    return TransportFacts(
        transport=transport if choice.chosen or choice.connected or choice.inner else NetworkTransport.UNKNOWN,
        network=network,
        plugin=", ".join(sorted(choice.versions) + sorted(choice.providers)) if has_plugin else "",
        connections=tuple(sorted(choice.inner | ({"NET"} if choice.connected else set()))),
        gpu_direct_rdma=choice.gpu_direct == {True},
    )


def _kind(network: str, choice: NcclChoice) -> NetworkTransport:
    if LIBFABRIC in network and choice.providers & SLOW_PROVIDERS:
        return NetworkTransport.TCP
    known = (transport for name, transport in BY_NETWORK.items() if network.startswith(name))
    return next(known, NetworkTransport.PLUGIN)
