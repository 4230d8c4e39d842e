"""An API server of canned answers, and a clock that costs no time."""

import contextlib
import json
import os
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from disttest_cli.kube.run_wait import WaitClock

NAMESPACE = "gpu-ci"


@dataclass(frozen=True, slots=True)
class CannedRequest:
    method: str
    path: str
    authorization: str
    body: Any


@dataclass(frozen=True, slots=True)
class Broken:
    """The connection ends without an answer."""


@dataclass(frozen=True, slots=True)
class CannedWatch:
    """These events; then it ends, as a watch does, or breaks off in mid-line."""

    events: list[dict[str, Any]]
    breaks_off: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """The asking process, which is this one, gets a signal while it waits for the answer that never comes."""

    number: int


Answer = tuple[int, Any] | Broken | CannedWatch | Signal


@dataclass
class Server:
    """Returns the given answers in order, and records the requests."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[CannedRequest] = field(default_factory=list)

    def kubeconfig(self, folder: Path) -> str:
        path = folder / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [
                {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}},
                {"name": "there", "context": {"cluster": "c", "user": "u"}},
            ],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "t0ken"}}],
        }
        path.write_text(json.dumps(config))
        return str(path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement
    state: Server  # of a subclass for each server

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.state.requests.append(CannedRequest(self.command, self.path, self.headers.get("Authorization", ""), body))
        answers = self.state.answers
        match answers.pop(0) if answers else (500, {"message": "the test has no answer for this"}):
            case Broken():
                self.close_connection = True
            case Signal(number=number):
                os.kill(os.getpid(), number)
                with contextlib.suppress(ConnectionError):
                    self.rfile.read(1)  # until the other side closes the connection
                self.close_connection = True
            case CannedWatch(events=events, breaks_off=breaks_off):
                self._stream(events, breaks_off=breaks_off)
            case (status, content):
                self._send(status, content)

    do_POST = do_GET  # noqa: N815  # the name that the base class requires

    def _send(self, status: int, content: Any) -> None:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if raw is content else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, events: list[dict[str, Any]], *, breaks_off: bool) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            line = json.dumps(event).encode() + b"\n"
            for part in (line[:7], line[7:]):  # lines are not cut where chunks are
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        self.wfile.write(b"5\r\n{" if breaks_off else b"0\r\n\r\n")
        self.close_connection = breaks_off

    def log_message(self, *_: Any) -> None:  # type: ignore[explicit-override]  # typing has it since Python 3.12
        pass


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True  # a connection that a client keeps is no reason to wait

    def handle_error(self, *_: Any) -> None:  # type: ignore[explicit-override]  # typing has it since Python 3.12
        """Clients break off in the middle: that is what is tested."""


@contextlib.contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """On a separate port, over TLS if it has a context."""
    state = Server()
    with _Quiet(("127.0.0.1", 0), type("Canned", (Handler,), {"state": state})) as http:
        if tls:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"{'https' if tls else 'http'}://127.0.0.1:{http.server_address[1]}"
        yield state
        http.shutdown()
        thread.join()


@dataclass
class FakeTime:
    """Time passes by sleeping, and by nothing else."""

    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)

    @property
    def clock(self) -> WaitClock:
        return WaitClock(now=lambda: self.seconds, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
