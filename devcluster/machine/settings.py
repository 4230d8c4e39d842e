"""Settings of a cluster, which `up` passes to the processes inside, its network, and the errors its users see."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parent
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
REAL_NODE_PROGRAMS = ("kubelet",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image name in pods, and the directory used for it, whose bin is first on PATH."""

    name: str
    directory: str
    env: Mapping[str, str]

    def visible(self) -> tuple[str, ...]:
        """List directories that a pod needs even if its /tmp and /run would hide them."""
        python = Path(self.directory) / "bin" / "python3"
        base = (str(python.resolve().parents[1]),) if python.exists() else ()  # a venv's interpreter lives elsewhere
        return (self.directory, *base)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealNodes:
    count: int
    programs: str  # directory of the unpacked packages
    store: str  # containerd's root with the images, which every node copies
    registry: str  # the registry's storage, with the same images
    cgroup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    programs: Mapping[str, tuple[str, ...]]
    nodes: int = 2
    gpus: int = 0
    stubs: int = 0
    audit_policy: str = ""  # file of the audit policy for logs/audit.log; if empty, nothing is logged
    images: tuple[Image, ...] = ()
    real: RealNodes | None = None
    listener_descriptor: int = -1

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of process nodes, starting with number 1."""
        return tuple(f"node{number}" for number in range(1, self.nodes + 1))

    @property
    def real_node_names(self) -> tuple[str, ...]:
        """Names of real nodes, whose numbers follow those of the process nodes."""
        return tuple(f"real{number}" for number in range(1, (self.real.count if self.real else 0) + 1))

    def visible(self) -> tuple[str, ...]:
        wanted = [str(REPOSITORY), *(path for image in self.images for path in image.visible())]
        return tuple(dict.fromkeys(wanted))

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=1))


def stub_names(count: int) -> tuple[str, ...]:
    return tuple(f"stub{number}" for number in range(1, count + 1))


def load(file: Path) -> ClusterSettings:
    """Read what `save` wrote, also by an older version: an interrupted cluster may be left from one."""
    raw: dict[str, Any] = json.loads(file.read_text())
    known = {field.name: raw[field.name] for field in fields(ClusterSettings) if field.name in raw}
    known["programs"] = {name: tuple(command) for name, command in raw["programs"].items()}
    known["images"] = tuple(Image(**image) for image in raw["images"])
    known["real"] = RealNodes(**raw["real"]) if raw.get("real") else None
    return ClusterSettings(**known)


BRIDGE = "dev0"
GATEWAY = "10.244.0.1"  # the bridge itself: API server on 443, DNS on 53
NETWORK_BITS = 16
POD_NETWORK = f"10.244.0.0/{NETWORK_BITS}"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"  # the first address of that range, which the `kubernetes` Service always gets
API_PORT = 443
KUBELET_PORT = 10250
STUB_PORT = 10251  # of the gateway, for the logs of all stub nodes
REGISTRY_PORT = 5000  # of the gateway, where there are real nodes
MOST_NODES = 200
UPLINK = "uplink"  # of a real node's bridge to the cluster's


def node_address(number: int) -> str:
    """Return the address of a node, counted from 1; its pods get the other addresses of the same /24."""
    return f"10.244.{number}.1"


def _add_bridge(number: int) -> str:
    """Return the command that adds the bridge of a node, or of the cluster (0).

    A bridge without a fixed MAC address takes that of a pod's link, and changes it when that pod ends: other hosts send
    to the old one for half a minute.
    """
    return f"link add {BRIDGE} address 02:00:0a:f4:{number:02x}:01 type bridge"


def create_network(nodes: int) -> None:
    """Add the cluster's bridge, with the addresses of its process nodes."""
    commands = ["link set lo up", _add_bridge(0), f"link set {BRIDGE} up"]
    addresses = [GATEWAY, *(node_address(number) for number in range(1, nodes + 1))]
    commands += [f"addr add {address}/{NETWORK_BITS} dev {BRIDGE}" for address in addresses]
    # The one ClusterIP that pods use: without kube-proxy it is an address of this machine.
    commands += [f"addr add {API_SERVICE}/32 dev lo"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


def join_network(number: int, pid: int) -> None:
    """Link a real node's bridge to that of PID 1; called in the node's network namespace by its process `pid`."""
    cable = f"link add real{number} master {BRIDGE} up type veth peer name {UPLINK} netns {pid}"
    subprocess.run(["nsenter", "--target", "1", "--net", "ip", *cable.split()], check=True)
    commands = [
        "link set lo up",
        _add_bridge(number),
        f"link set {UPLINK} master {BRIDGE} up",
        f"link set {BRIDGE} up",
        f"addr add {node_address(number)}/{NETWORK_BITS} dev {BRIDGE}",
        f"route add default via {GATEWAY}",
    ]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


class DevClusterError(Exception):
    """The message explains it and names the remedy."""


class NoNamespaces(DevClusterError):  # noqa: N818 - names the state of the machine; a suffix would not say more
    """No namespaces can be created here, which no code can repair: a test may skip."""
