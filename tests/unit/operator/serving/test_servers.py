"""What strangers on the network can do to a server of the operator: not much, and not for long."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp import web

from disttest_operator.serving import servers
from disttest_operator.serving.certificates import Certificate
from disttest_operator.serving.servers import BACKLOG, MAX_CONNECTIONS, MAX_HANDSHAKES
from tests.support import patience
from tests.unit.operator.serving.test_certificates import NAMES, NOW, RecordedCounter

DEADLINE_SECONDS = 20


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


def a_context() -> ssl.SSLContext:
    return Certificate(None, names=NAMES, clock=lambda: NOW, counter=RecordedCounter()).tls


TLS: dict[str, Callable[[], ssl.SSLContext | None]] = {"http": lambda: None, "https": a_context}


class ServedPlace:
    """A server, and who talks to it."""

    def __init__(self, runner: web.AppRunner, scheme: str) -> None:
        self.runner, self.scheme = runner, scheme
        self.port = runner.addresses[0][1]

    @property
    def open(self) -> int:
        assert self.runner.server is not None
        return len(self.runner.server.connections)

    async def connect(self, *, shakes_hands: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl._create_unverified_context() if self.scheme == "https" and shakes_hands else None  # noqa: S323  # our own
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    async def get(self, **headers: str) -> int:
        address = f"{self.scheme}://127.0.0.1:{self.port}/"
        async with aiohttp.ClientSession() as session, session.get(address, ssl=False, headers=headers) as response:
            await response.read()
            return response.status


@contextlib.asynccontextmanager
async def a_place(scheme: str) -> AsyncIterator[ServedPlace]:
    app = web.Application()
    app.add_routes([web.get("/", hello)])
    runner = await servers.serve(app, "127.0.0.1:0", TLS[scheme]())
    try:
        async with asyncio.timeout(patience.stretched(DEADLINE_SECONDS)):
            yield ServedPlace(runner, scheme)
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("scheme", TLS)
def test_silent_and_slow_connections_keep_no_other_out(scheme: str) -> None:
    async def main() -> None:
        async with a_place(scheme) as place:
            assert await place.get() == 200
            idle = []
            for number in range(MAX_CONNECTIONS + 10):
                reader, writer = await place.connect()
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: " if number % 2 else b"")
                idle.append((reader, writer))
            assert await place.get() == 200
            assert place.open <= MAX_CONNECTIONS
            with contextlib.suppress(ConnectionError):
                assert await idle[0][0].read() == b"", "the oldest has gone"
            for _, writer in idle:
                writer.close()

    asyncio.run(main())


def test_connections_without_a_handshake_keep_no_other_out() -> None:
    async def main() -> None:
        async with a_place("https") as place:
            silent = [await place.connect(shakes_hands=False) for _ in range(2 * MAX_HANDSHAKES + BACKLOG)]
            assert await place.get() == 200
            assert len(asyncio.all_tasks()) < MAX_HANDSHAKES + BACKLOG
            with contextlib.suppress(ConnectionError):
                assert await silent[0][0].read() == b""
            for _, writer in silent:
                writer.close()

    asyncio.run(main())


def test_what_is_no_handshake_ends_the_connection() -> None:
    async def main() -> None:
        async with a_place("https") as place:
            reader, writer = await place.connect(shakes_hands=False)
            writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
            with contextlib.suppress(ConnectionError):
                assert b"hello" not in await reader.read()
            writer.close()
            assert await place.get() == 200

    asyncio.run(main())


@pytest.mark.parametrize("scheme", TLS)
def test_a_header_without_an_end_is_refused(scheme: str) -> None:
    async def main() -> None:
        async with a_place(scheme) as place:
            assert await place.get(Authorization="Bearer " + "x" * (1 << 16)) == 400
            assert await place.get() == 200

    asyncio.run(main())
