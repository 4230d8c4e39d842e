"""The web servers for metrics and health. Any client on the network can reach them, so connections are bounded."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from disttest_operator.serving import access
from disttest_operator.serving.access import AccessDecision
from disttest_operator.serving.certificates import Certificate

MAX_CONNECTIONS = 64  # of one server; a TLS connection takes 0.3 MiB
MAX_HANDSHAKES = 32
HANDSHAKE_SECONDS = 5.0
BACKLOG = 32  # connections that are accepted at once, before their number is checked


async def serve(app: web.Application, address: str, tls: ssl.SSLContext | None = None) -> web.AppRunner:
    """Listen on `address`, host:port or :port. The caller cleans the runner up."""
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    await BoundedSite(runner, host.strip("[]") or None, int(port), tls).start()
    return runner


class BoundedSite(web.BaseSite):
    """Closes the oldest connection for a new one when it is full: slow or silent clients keep no other out."""

    def __init__(self, runner: web.AppRunner, host: str | None, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._host, self._port, self._tls = host, port, tls
        self._handshakes: dict[_Handshake, None] = {}  # oldest first

    @property
    def name(self) -> str:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return f"{'https' if self._tls else 'http'}://{self._host or '*'}:{self._port}"

    async def start(self) -> None:  # type: ignore[explicit-override]  # likewise
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._host, self._port, backlog=BACKLOG)

    async def stop(self) -> None:  # type: ignore[explicit-override]  # likewise
        for handshake in [*self._handshakes]:
            handshake.cancel()
        await super().stop()

    def _accept(self) -> asyncio.Protocol:
        if self._tls is None:
            return self.handler()
        for oldest in [*self._handshakes][: len(self._handshakes) + 1 - MAX_HANDSHAKES]:
            oldest.cancel()
        new = _Handshake(self, self._tls)
        self._handshakes[new] = None
        return new

    def handler(self) -> asyncio.Protocol:
        """The HTTP protocol of a new connection."""
        server = self._runner.server
        assert server is not None  # noqa: S101  # the runner is set up
        open_now = server.connections
        for oldest in open_now[: max(0, len(open_now) + 1 - MAX_CONNECTIONS)]:
            oldest.force_close()
        return server()

    def forget(self, handshake: "_Handshake") -> None:
        self._handshakes.pop(handshake, None)


class _Handshake(asyncio.Protocol):
    """A connection until its TLS handshake is done."""

    def __init__(self, site: BoundedSite, tls: ssl.SSLContext) -> None:
        self._site, self._tls = site, tls
        self._transport: asyncio.BaseTransport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # type: ignore[explicit-override]  # likewise
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # asyncio gives stream protocols these
        transport.pause_reading()  # the first bytes belong to TLS
        self._transport = transport
        self._task = asyncio.get_running_loop().create_task(self._shake(transport), name="TLS handshake")

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            handler = self._site.handler()
            loop = asyncio.get_running_loop()
            secured = await loop.start_tls(
                transport, handler, self._tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
            if secured:
                handler.connection_made(secured)
        except (OSError, asyncio.CancelledError):  # ssl.SSLError and TimeoutError are OSErrors
            transport.abort()
        finally:
            self._site.forget(self)

    def cancel(self) -> None:
        self._site.forget(self)
        if self._task:
            self._task.cancel()


def health_app(problems: Callable[[], list[str]], is_ready: Callable[[], bool]) -> web.Application:
    """`/healthz` fails while there are problems, `/readyz` until the operator is ready."""

    async def live(_: web.Request) -> web.Response:
        found = problems()
        return web.Response(status=503 if found else 200, text="; ".join(found) or "ok")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok") if is_ready() else web.Response(status=503, text="syncing")

    app = web.Application()
    app.add_routes([web.get("/healthz", live), web.get("/readyz", ready)])
    return app


Render = Callable[[str], tuple[bytes, str]]  # from an Accept header to body and content type
Authorize = Callable[[str], Awaitable[AccessDecision]]  # from an Authorization header

REFUSAL_HEADERS = {
    access.ScrapeStatus.UNKNOWN: {"WWW-Authenticate": "Bearer"},
    access.ScrapeStatus.TOO_MANY: {"Retry-After": "1"},
}


async def allow_all(_: str) -> AccessDecision:
    return access.ALLOWED


def metrics_app(render: Render, *, authorize: Authorize, count: Callable[[int], None]) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        answer = await authorize(request.headers.get("Authorization", ""))
        count(answer.status)
        if answer.status is not access.ScrapeStatus.ALLOWED:
            headers = REFUSAL_HEADERS.get(answer.status)
            return web.Response(status=answer.status, text=f"{answer.sentence}\n", headers=headers)
        body, content_type = render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    app = web.Application()
    app.add_routes([web.get(access.PATH, metrics)])
    return app


def reload_while_serving(certificate: Certificate, server: web.Application) -> None:
    async def run(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(certificate.run(), name="certificate")
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    server.cleanup_ctx.append(run)
