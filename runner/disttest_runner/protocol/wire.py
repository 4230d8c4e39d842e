"""JSON lines over stream sockets between all processes of a gang, with file descriptors if needed, and heartbeats."""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

from disttest_runner.compat import override

PROTOCOL = 3  # of agents and leader; raised with every change that an older end would misread
HELLO_BYTES = 16 << 10  # of a line from a client that is not authenticated yet
LINE_BYTES = 64 << 20  # of any other line: the longest holds the ids of a suite's cases
READ_BYTES = 64 << 10  # at once
MAX_DESCRIPTORS = 8

# A peer that disappears without closing the connection (its node lost power) is detected after about 25 s.
KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)

Message = dict[str, Any]

ALIVE: Message = {"op": "alive"}  # the heartbeat of agents and leader


class WireError(ValueError):
    """A line that is too long or is not a JSON object."""


_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps and json.loads cost twice as much
_decode = json.JSONDecoder().raw_decode


def pack(message: Mapping[str, Any]) -> bytes:
    return _encode(message).encode() + b"\n"


def unpack(raw: bytes) -> Message:
    try:
        text = str(raw, "utf-8")
        message, end = _decode(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a line is not JSON: {error}") from error
    if end != len(text) and text[end:].strip():
        raise WireError(f"a line has text after its JSON: {text[end : end + 40]!r}")
    if not isinstance(message, dict):
        raise WireError(f"a line is {type(message).__name__}, not an object")
    return message


class Channel:
    """A blocking connection, for processes that do one thing at a time: zygote and ranks."""

    def __init__(self, sock: socket.socket, *, takes_descriptors: bool = True) -> None:
        self.sock = sock
        self._takes_descriptors = takes_descriptors
        self._buffer = b""
        self._descriptors: list[int] = []

    def send(self, message: Mapping[str, Any]) -> None:
        self.sock.sendall(pack(message))

    @property
    def has_line(self) -> bool:
        return b"\n" in self._buffer

    def receive(self) -> Message | None:
        """Return the next message, or None when the other end is gone."""
        while not self.has_line:
            try:
                chunk = self._read()
            except ConnectionError:
                return None
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return unpack(line)

    def _read(self) -> bytes:
        if not self._takes_descriptors:
            return self.sock.recv(READ_BYTES)
        chunk, descriptors, _, _ = socket.recv_fds(self.sock, READ_BYTES, MAX_DESCRIPTORS)
        self._descriptors += descriptors
        return chunk

    def take_descriptors(self, count: int) -> list[int]:
        """Return those that came with the last message."""
        taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return taken


class LineProtocol(asyncio.BufferedProtocol):
    """An asyncio connection: one call for each line, one when the other end is gone."""

    # What was read is taken out at once, so one buffer serves all connections; a new one each time costs 10 us.
    _buffer = memoryview(bytearray(READ_BYTES))

    def __init__(
        self,
        on_line: Callable[["LineProtocol", bytes], None],
        on_lost: Callable[["LineProtocol"], None],
        limit_bytes: int = LINE_BYTES,
    ) -> None:
        self.serve(on_line, on_lost, limit_bytes)
        self.is_lost = False
        self._is_closing = False  # asking the transport each time would cost more than reading does
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._transport: asyncio.Transport | None = None

    def serve(
        self,
        on_line: Callable[["LineProtocol", bytes], None],
        on_lost: Callable[["LineProtocol"], None],
        limit_bytes: int,
    ) -> None:
        """Replace the callbacks, from the next line on."""
        self._on_line, self._on_lost, self.limit_bytes = on_line, on_lost, limit_bytes

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows for mypy; asyncio gives stream protocols these
        self._transport = transport
        if self._is_closing:
            transport.close()
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            for level, option, value in KEEPALIVE:
                sock.setsockopt(level, option, value)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self.feed(bytes(self._buffer[:nbytes]))

    def feed(self, chunk: bytes) -> None:
        """Split what was read into lines; nearly always it is one complete line."""
        if 0 <= chunk.find(b"\n") == len(chunk) - 1 < self.limit_bytes and not self._pending and not self._is_closing:
            self._on_line(self, chunk[:-1])
            return
        *whole, rest = chunk.split(b"\n")
        if whole and self._pending:
            whole[0] = b"".join([*self._pending, whole[0]])
            self._pending, self._pending_bytes = [], 0
        for line in whole:
            if self._is_closing:
                return
            if len(line) > self.limit_bytes:
                self.close()
                return
            self._on_line(self, line)
        if rest:
            self._pending.append(rest)
            self._pending_bytes += len(rest)
            if self._pending_bytes > self.limit_bytes:
                self.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.is_lost = self._is_closing = True
        self._on_lost(self)

    def write(self, raw: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(raw)

    def send(self, message: Mapping[str, Any]) -> None:
        self.write(pack(message))

    def close(self) -> None:
        """Close after what was written before has been sent."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()


BEATS = 5  # within `silence_seconds`, after which a silent peer is lost


class Heartbeat:
    """Heartbeats between agents and leader, to detect a peer that is stopped or cannot be reached.

    An open connection proves little: the kernel of a stopped process, or of a partly frozen node, keeps it open.
    `send` sends a beat to all peers; `lost` is called once with a peer that was silent, and with a description.

    Silence is counted in beats of this process, so no peer counts as silent while this process is stopped.
    """

    def __init__(self, silence_seconds: float, send: Callable[[], None], lost: Callable[[int, str], None]) -> None:
        self._send, self._lost = send, lost
        self._beat_seconds = silence_seconds / BEATS
        self._silent_beats: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def reset(self, peer: int) -> None:
        """Record that a message came from this peer."""
        self._silent_beats[peer] = 0

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._beat_seconds, self._beat)
        self._send()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _beat(self) -> None:
        self.start()
        for peer, beats in list(self._silent_beats.items()):
            self._silent_beats[peer] = beats + 1
            if beats + 1 == BEATS:
                del self._silent_beats[peer]
                seconds = beats * self._beat_seconds
                self._lost(
                    peer, f"sent nothing for more than {seconds:.0f} s (the process is stopped, or the network fails)"
                )
