"""The network that the ranks of a run used, as NCCL reports it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from disttest_contract.outcomes import Explained
from disttest_contract.text.json_values import JsonRecord, PlainRecord, fields_to_json

ANY = "any"  # of spec.transport: nothing is required
WORD_CHARACTERS = 64
CONNECTIONS = 8
GROUPS = 16


class NetworkTransport(Explained):
    RDMA = "rdma", "InfiniBand or RoCE."
    TCP = "tcp", "TCP sockets."
    PLUGIN = "plugin", "Another network plugin, such as EFA or FasTrak."
    LOCAL = "local", "No network: ranks on one node, or connected by NVLink."
    UNKNOWN = "unknown", "NCCL's log does not show it, or no rank used NCCL."

    @classmethod
    def from_json(cls, value: object) -> Self:
        """A newer version can have more values."""
        return next((one for one in cls if one == value), cls("unknown"))


# The first of these that a rank used is shown for the run.
WORST_FIRST = (
    NetworkTransport.TCP,
    NetworkTransport.PLUGIN,
    NetworkTransport.RDMA,
    NetworkTransport.LOCAL,
    NetworkTransport.UNKNOWN,
)
# Names of networks by their prefix: a metric label. Others are OTHER.
NETWORKS = ("IBext", "IB", "gIB", "Socket", "AWS Libfabric", "Libfabric", "FasTrak", "GPUDirectTCPX", "UCX", "gloo")
OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportFacts(PlainRecord):
    """What one or several ranks used. `network` and `plugin` are as printed; of several networks the worst."""

    OMITS_EMPTY = True

    transport: NetworkTransport = NetworkTransport.UNKNOWN
    network: str = ""  # IB, Socket, AWS Libfabric …
    plugin: str = ""  # its version and provider
    connections: tuple[str, ...] = ()  # of NET, NVLS, P2P, SHM
    gpu_direct_rdma: bool = False

    @classmethod
    def of_message(cls, data: Mapping[str, Any]) -> Self:
        """Read what an agent sent, within limits."""
        found = cls.from_json(data)
        return cls(
            transport=found.transport,
            network=found.network[:WORD_CHARACTERS],
            plugin=found.plugin[:WORD_CHARACTERS],
            connections=tuple(one[:WORD_CHARACTERS] for one in found.connections[:CONNECTIONS]),
            gpu_direct_rdma=found.gpu_direct_rdma,
        )

    @property
    def words(self) -> str:
        """Such as `rdma (IB, GPUDirect RDMA)`."""
        parts = (self.network, self.plugin, "GPUDirect RDMA" if self.gpu_direct_rdma else "")
        shown = ", ".join(part for part in parts if part)
        return f"{self.transport.value} ({shown})" if shown else self.transport.value


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportGroup(PlainRecord):
    """Ranks that used the same. `ranks` is a list such as 0-7."""

    ranks: str
    used: TransportFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTransport(JsonRecord):
    """The facts of the whole run. `groups` are set if ranks differ, the worst first; some can be missing."""

    used: TransportFacts = TransportFacts()
    groups: tuple[TransportGroup, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {} if self == UNKNOWN else fields_to_json(self, omit_empty=True)

    @property
    def words(self) -> str:
        """Name the ranks if they used different networks; ranks that used none are usual."""
        ranks: dict[str, list[str]] = {}
        for group in self.groups:
            if group.used.transport is not NetworkTransport.LOCAL:
                ranks.setdefault(group.used.words, []).append(group.ranks)
        if len(ranks) <= 1:
            return self.used.words
        return "; ".join(f"{words} on ranks {','.join(each)}" for words, each in ranks.items())


UNKNOWN = GangTransport()


def is_met(wanted: str, gang: GangTransport) -> bool:
    """Whether a run proves the value of spec.transport: what is unknown proves nothing."""
    if wanted == ANY:
        return True
    used = {gang.used.transport, *(group.used.transport for group in gang.groups)}
    return gang.used.transport.value == wanted and used <= {gang.used.transport, NetworkTransport.LOCAL}


def known_network(name: str) -> str:
    """Return one of few names, for a metric label."""
    return next((one for one in NETWORKS if name.startswith(one)), OTHER if name else "")
