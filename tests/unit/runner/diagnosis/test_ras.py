"""NCCL's RAS service, played by a socket: its answers are read, and nothing it does delays or fails a run."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from disttest_runner.diagnosis import ras

TEXT = "NCCL version 2.29.7\nJob summary\n  4 ranks\n"
JSON = json.dumps({"nccl_version": "2.29.7", "communicators": []})


class FakeRas:
    """Speaks the protocol as NCCL's does, or badly."""

    def __init__(self, answer: Callable[[socket.socket, str], None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.where = self._listener.getsockname()
        self.received: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            sock, _ = self._listener.accept()
            with sock, sock.makefile("r") as lines:
                for line in lines:
                    self.received.append(line.strip())
                    self._answer(sock, line.strip().lower())
                    if "status" in line.lower():
                        return
        except OSError:
            return

    def close(self) -> None:
        self._listener.close()
        self._thread.join(5)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket, str], None]], FakeRas]]:
    services: list[FakeRas] = []

    def start(answer: Callable[[socket.socket, str], None]) -> FakeRas:
        services.append(FakeRas(answer))
        return services[-1]

    yield start
    for service in services:
        service.close()


Serve = Callable[[Callable[[socket.socket, str], None]], FakeRas]


def nccl(status: str, *, knows_json: bool = True) -> Callable[[socket.socket, str], None]:
    def answer(sock: socket.socket, command: str) -> None:
        if command.startswith("client protocol"):
            sock.sendall(b"SERVER PROTOCOL 2\n")
        elif command.startswith("timeout") or (command == "set format json" and knows_json):
            sock.sendall(b"OK\n")
        elif command == "verbose status":
            sock.sendall(status.encode())
        else:
            sock.sendall(f"ERROR: Unknown command {command}\n".encode())

    return answer


def test_the_verbose_status_is_asked_for_and_read_to_its_end(serve: Serve) -> None:
    service = serve(nccl(TEXT))
    assert ras.status(service.where) == TEXT
    assert service.received == ["CLIENT PROTOCOL 2", f"TIMEOUT {ras.PEER_SECONDS}", "VERBOSE STATUS"]


def test_the_status_can_be_had_as_json(serve: Serve) -> None:
    assert json.loads(ras.status(serve(nccl(JSON)).where, form="json")) == json.loads(JSON)


def test_a_service_that_knows_no_json_is_said_to_refuse_it(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match="rejected 'SET FORMAT json'"):
        ras.status(serve(nccl(TEXT, knows_json=False)).where, form="json")


def test_what_is_no_json_is_not_taken_for_it(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match="invalid JSON"):
        ras.status(serve(nccl(TEXT)).where, form="json")


def test_a_silent_service_costs_no_more_than_its_time(serve: Serve) -> None:
    started = time.monotonic()
    with pytest.raises(ras.SilentError, match="did not answer"):
        ras.status(serve(lambda *_: None).where, seconds=0.2)
    assert time.monotonic() - started < 5


def test_a_service_that_trickles_costs_no_more_than_its_time(serve: Serve) -> None:
    going = threading.Event()

    def trickle(sock: socket.socket, command: str) -> None:
        nccl("")(sock, command)
        while "status" in command and not going.wait(0.01):
            sock.sendall(b"x")

    service = serve(trickle)
    try:
        with pytest.raises(ras.SilentError, match="timed out"):
            ras.status(service.where, seconds=0.3)
    finally:
        going.set()


def test_something_else_on_that_port_is_not_taken_for_nccl(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match=r"another program listens on the port of NCCL RAS: 'SSH-2\.0"):
        ras.status(serve(lambda sock, _: sock.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")).where)


def test_garbage_without_an_end_is_given_up(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match="another program"):
        ras.status(serve(lambda sock, _: sock.sendall(b"\xff" * 5000)).where)


def test_a_huge_status_is_cut(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "LIMIT_BYTES", 1000)
    text = ras.status(serve(nccl("y" * 500_000)).where)
    assert text.startswith("y" * 1000 + "\n… more than 1000 bytes")


def test_nobody_listening_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = taken.getsockname()
    with pytest.raises(ras.SilentError, match="Connection refused"):
        ras.status(where)


@pytest.mark.parametrize(
    ("environ", "uses_nccl", "where"),
    [
        ({}, True, ("localhost", 28028)),
        ({}, False, None),
        ({"NCCL_RAS_ADDR": "127.0.0.1:9999"}, False, ("127.0.0.1", 9999)),
        ({"NCCL_RAS_ADDR": "[::1]:9999"}, True, ("::1", 9999)),
        ({"NCCL_RAS_ADDR": "nonsense"}, True, None),
        ({"NCCL_RAS_ENABLE": "0"}, True, None),
    ],
)
def test_where_to_ask(environ: dict[str, str], uses_nccl: bool, where: tuple[str, int] | None) -> None:  # noqa: FBT001 - a row of a table
    assert ras.address(environ, uses_nccl=uses_nccl) == where
