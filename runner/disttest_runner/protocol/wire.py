"""JSON lines over stream sockets, with file descriptors riding along: between all processes of a gang."""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

from disttest_runner.compat import override

PROTOCOL = 3  # of agents and leader; raised with every change that an older end would misread
HELLO_BYTES = 16 << 10  # of a line from somebody who has not yet said who it is
LINE_BYTES = 64 << 20  # of any other line: the longest holds the ids of a suite's cases
READ_BYTES = 64 << 10  # at once
MAX_DESCRIPTORS = 8

# A peer that vanished without a word (its node lost power) is noticed after about 25 s.
KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)

Message = dict[str, Any]

ALIVE: Message = {"op": "alive"}  # agents and leader to each other, so that silence means something


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
        raise WireError(f"a line goes on after its JSON: {text[end : end + 40]!r}")
    if not isinstance(message, dict):
        raise WireError(f"a line is {type(message).__name__}, not an object")
    return message


class Channel:
    """A blocking end, for processes that do one thing at a time: zygote and ranks."""

    def __init__(self, sock: socket.socket, *, takes_descriptors: bool = True) -> None:
        self.sock = sock
        self._takes_descriptors = takes_descriptors
        self._buffer = b""
        self._descriptors: list[int] = []

    def send(self, message: Mapping[str, Any]) -> None:
        self.sock.sendall(pack(message))

    @property
    def has_line(self) -> bool:
        """Whether the next message is here."""
        return b"\n" in self._buffer

    def receive(self) -> Message | None:
        """The next message, or None when the other end is gone."""
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
        """Those that came with the message received last."""
        taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return taken


class LineProtocol(asyncio.BufferedProtocol):
    """An asyncio end: one call for each line, one when the other end is gone."""

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
        self._is_closing = False  # asked of the transport each time, it would cost more than reading does
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._transport: asyncio.Transport | None = None

    def serve(
        self,
        on_line: Callable[["LineProtocol", bytes], None],
        on_lost: Callable[["LineProtocol"], None],
        limit_bytes: int,
    ) -> None:
        """Hand the connection over; takes effect with the next line."""
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
        """What has been read: nearly always one line, whole."""
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
        """What was written before still goes out."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()
