"""Addresses of a cluster. They are fixed: every cluster has a network of its own."""

import subprocess

BRIDGE = "dev0"
GATEWAY = "10.244.0.1"  # the bridge itself: API server on 443, DNS on 53
NETWORK_BITS = 16
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"  # the first address of that range, which the `kubernetes` Service always gets
API_PORT = 443
KUBELET_PORT = 10250
MOST_NODES = 200


def node_address(number: int) -> str:
    """Of the node counted from 1; its pods get the other addresses of the same /24."""
    return f"10.244.{number}.1"


def create(nodes: int) -> None:
    commands = ["link set lo up", f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up"]
    addresses = [GATEWAY, *(node_address(number) for number in range(1, nodes + 1))]
    commands += [f"addr add {address}/{NETWORK_BITS} dev {BRIDGE}" for address in addresses]
    # The one ClusterIP that pods dial: there is no kube-proxy, so it is simply an address of this machine.
    commands += [f"addr add {API_SERVICE}/32 dev lo"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
