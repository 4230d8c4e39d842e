"""Addresses of a cluster. They are fixed: every cluster has a network of its own."""

import subprocess

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
    """Of the node counted from 1; its pods get the other addresses of the same /24."""
    return f"10.244.{number}.1"


def _add_bridge(number: int) -> str:
    """The command that makes that of a node, or of the cluster (0).

    One to which nobody gives an address has that of a pod's cable, and another when that pod goes: all others send to
    the old one for half a minute.
    """
    return f"link add {BRIDGE} address 02:00:0a:f4:{number:02x}:01 type bridge"


def create(nodes: int) -> None:
    """The cluster's bridge, and on it the addresses of its process nodes."""
    commands = ["link set lo up", _add_bridge(0), f"link set {BRIDGE} up"]
    addresses = [GATEWAY, *(node_address(number) for number in range(1, nodes + 1))]
    commands += [f"addr add {address}/{NETWORK_BITS} dev {BRIDGE}" for address in addresses]
    # The one ClusterIP that pods dial: there is no kube-proxy, so it is simply an address of this machine.
    commands += [f"addr add {API_SERVICE}/32 dev lo"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


def join(number: int, pid: int) -> None:
    """Called in the network namespace of a real node, by its process `pid`: cables its own bridge to PID 1's."""
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
