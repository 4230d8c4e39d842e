"""The address of a generation's store: its socket, which node 0's agent binds for rank 0, and gloo's interface."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

BACKLOG = 1024  # connections that wait to be accepted


class StoreListener:
    """Binds a new socket for each generation, so that no key of the last one is seen again."""

    def __init__(self, leader_host: str) -> None:
        self._host = leader_host
        self.socket: socket.socket | None = None

    def open(self) -> tuple[str, int]:
        """Return host and port that ranks connect to. The kernel chooses a free port."""
        self.close()
        self.socket = listen(self._host, 0)
        return self._host, self.socket.getsockname()[1]

    def close(self) -> None:
        if self.socket:
            self.socket.close()
            self.socket = None


def listen(leader_host: str, port: int) -> socket.socket:
    """Listen on loopback if `leader_host` is there, else on every address of the pod."""
    if is_loopback(leader_host):
        return socket.create_server((leader_host, port), backlog=BACKLOG)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=BACKLOG)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


VARIABLE = "GLOO_SOCKET_IFNAME"
SIOCGIFADDR = 0x8915  # the IPv4 address of an interface
REQUEST_BYTES = 256
NAME_BYTES = 15
ADDRESS_PLACE = slice(20, 24)  # in the reply
IPV6_ADDRESSES = Path("/proc/net/if_inet6")


def interface_settings(store_host: str, store_port: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Return gloo's variable with an interface name, if it is needed and not set yet."""
    if environ.get(VARIABLE) or is_loopback(store_host):
        return {}
    try:
        own = address_towards(store_host, store_port)
    except OSError:
        return {}  # the error for the store is clearer
    found = chosen_interface(own, of_host_name(), of_interfaces())
    return {VARIABLE: found} if found else {}


def chosen_interface(own: str, of_name: frozenset[str], interfaces: Mapping[str, frozenset[str]]) -> str:
    """Return the first interface with this address; empty where the host name resolves to it, or none has it."""
    if own in of_name or is_loopback(own):
        return ""
    return next((name for name, addresses in interfaces.items() if own in addresses), "")


def address_towards(host: str, port: int) -> str:
    """Return the local address on the route to `host`. Nothing is sent."""
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def of_host_name() -> frozenset[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(entry[4][0]) for entry in found)


def of_interfaces() -> dict[str, frozenset[str]]:
    """Return addresses by interface, in the kernel's order; only the first IPv4 address of each."""
    return {name: frozenset({*_ipv4(name), *_ipv6(name)}) for _, name in socket.if_nameindex()}


def _ipv4(name: str) -> list[str]:
    request = struct.pack(f"{REQUEST_BYTES}s", name.encode()[:NAME_BYTES])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, contextlib.suppress(OSError):
        return [socket.inet_ntoa(fcntl.ioctl(asking, SIOCGIFADDR, request)[ADDRESS_PLACE])]
    return []


def _ipv6(name: str) -> list[str]:
    if not IPV6_ADDRESSES.exists():
        return []
    rows = (line.split() for line in IPV6_ADDRESSES.read_text().splitlines())
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[-1] == name]
