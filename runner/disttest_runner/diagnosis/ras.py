"""Reads NCCL's status from its RAS service, which listens in one process of each node, from NCCL 2.24 on."""

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

ADDRESS = "localhost:28028"
ADDRESS_VARIABLE = "NCCL_RAS_ADDR"
SWITCH_VARIABLE = "NCCL_RAS_ENABLE"
PROTOCOL = 2
PEER_SECONDS = 2  # for which the service waits for other processes; an integer
ANSWER_SECONDS = 4.0  # for all of it
LIMIT_BYTES = 4 << 20
REPLY_BYTES = 1024


class SilentError(Exception):
    """There is no status; the message has the reason."""


def address(environ: Mapping[str, str], *, uses_nccl: bool) -> tuple[str, int] | None:
    """Return the service's host and port; with another backend only if the environment has them."""
    text = environ.get(ADDRESS_VARIABLE, ADDRESS if uses_nccl else "")
    host, _, port = text.rpartition(":")
    if environ.get(SWITCH_VARIABLE, "1") == "0" or not port.isdecimal():
        return None
    return host.strip("[]") or "localhost", int(port)


def status(where: tuple[str, int], *, form: str = "text", seconds: float = ANSWER_SECONDS) -> str:
    """Return the verbose status as `text`, or as `json` from NCCL 2.28.7 on. Raises SilentError."""
    deadline = time.monotonic() + seconds
    try:
        with socket.create_connection(where, timeout=seconds) as sock:
            _greet(sock, deadline)
            _command(sock, f"TIMEOUT {PEER_SECONDS}", "OK", deadline)
            if form != "text":
                _command(sock, f"SET FORMAT {form}", "OK", deadline)
            sock.sendall(b"VERBOSE STATUS\n")
            text = _read_all(sock, deadline)
    except OSError as error:  # a timeout is one too
        raise SilentError(
            f"NCCL RAS at {where[0]}:{where[1]} did not answer: {error or type(error).__name__}"
        ) from error
    if form == "json":
        with suppress(ValueError):
            json.loads(text)
            return text
        raise SilentError(f"NCCL RAS at {where[0]}:{where[1]} sent invalid JSON")
    return text


def _greet(sock: socket.socket, deadline: float) -> None:
    reply = _ask(sock, f"CLIENT PROTOCOL {PROTOCOL}", deadline)
    if not reply.upper().startswith("SERVER PROTOCOL "):
        raise SilentError(f"another program listens on the port of NCCL RAS: {reply[:80]!r}")


def _command(sock: socket.socket, command: str, expected: str, deadline: float) -> None:
    reply = _ask(sock, command, deadline)
    if reply.strip().upper() != expected:
        raise SilentError(f"NCCL RAS rejected {command!r}: {reply[:80]!r}")


def _ask(sock: socket.socket, command: str, deadline: float) -> str:
    sock.sendall(f"{command}\n".encode())
    reply = b""
    while not reply.endswith(b"\n") and len(reply) < REPLY_BYTES:
        chunk = _receive(sock, deadline, 1)  # byte by byte, so as not to read into the next answer
        if not chunk:
            break
        reply += chunk
    return reply.decode(errors="replace")


def _read_all(sock: socket.socket, deadline: float) -> str:
    """Read until the service closes the connection; drop what exceeds the limit, with a note."""
    parts: list[bytes] = []
    size = 0
    while size <= LIMIT_BYTES and (chunk := _receive(sock, deadline, 1 << 16)):
        parts.append(chunk)
        size += len(chunk)
    text = b"".join(parts)[:LIMIT_BYTES].decode(errors="replace")
    return f"{text}\n… more than {LIMIT_BYTES} bytes: the rest is dropped\n" if size > LIMIT_BYTES else text


def _receive(sock: socket.socket, deadline: float, limit_bytes: int) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    sock.settimeout(left)
    return sock.recv(limit_bytes)
