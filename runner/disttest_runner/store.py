"""The socket that a generation's store will be served on: bound by the agent of node 0, used by rank 0."""

import ipaddress
import socket

BACKLOG = 1024  # connections that wait to be accepted


class StoreListener:
    """A new one for each generation, so that nothing of the last one is met again."""

    def __init__(self, leader_host: str) -> None:
        self._host = leader_host
        self.socket: socket.socket | None = None

    def open(self) -> tuple[str, int]:
        """Host and port that ranks connect to. The kernel picks the port: none can be taken already."""
        self.close()
        self.socket = listen(self._host, 0)
        return self._host, self.socket.getsockname()[1]

    def close(self) -> None:
        if self.socket:
            self.socket.close()
            self.socket = None


def listen(leader_host: str, port: int) -> socket.socket:
    """On loopback only if that is where the leader is said to be, else on every address of the pod."""
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
