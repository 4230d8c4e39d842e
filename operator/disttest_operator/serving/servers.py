"""Web servers that anybody on the network can reach: how many connections there are is ours to say, not theirs."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from disttest_operator.serving import access
from disttest_operator.serving.access import AccessDecision
from disttest_operator.serving.certificates import Certificate

MOST = 64  # connections of one server; a TLS connection takes 0.3 MiB
MOST_SHAKING_HANDS = 32
HANDSHAKE_SECONDS = 5.0
BACKLOG = 32  # so many are taken at once, before it is seen how many there are


async def serve(app: web.Application, address: str, tls: ssl.SSLContext | None = None) -> web.AppRunner:
    """`address` is host:port or :port. Clean it up at the end."""
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    await BoundedSite(runner, host.strip("[]") or None, int(port), tls).start()
    return runner


class BoundedSite(web.BaseSite):
    """Who connects when it is full takes the place of the oldest: who says nothing, or slowly, keeps nobody out."""

    def __init__(self, runner: web.AppRunner, host: str | None, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._host, self._port, self._tls = host, port, tls
        self._shaking: dict[_Handshake, None] = {}  # the oldest first

    @property
    def name(self) -> str:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return f"{'https' if self._tls else 'http'}://{self._host or '*'}:{self._port}"

    async def start(self) -> None:  # type: ignore[explicit-override]  # likewise
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._take, self._host, self._port, backlog=BACKLOG)

    async def stop(self) -> None:  # type: ignore[explicit-override]  # likewise
        for handshake in [*self._shaking]:
            handshake.give_up()
        await super().stop()

    def _take(self) -> asyncio.Protocol:
        if self._tls is None:
            return self.handler()
        for oldest in [*self._shaking][: len(self._shaking) + 1 - MOST_SHAKING_HANDS]:
            oldest.give_up()
        new = _Handshake(self, self._tls)
        self._shaking[new] = None
        return new

    def handler(self) -> asyncio.Protocol:
        """Of a connection that is about to be made."""
        server = self._runner.server
        assert server is not None  # noqa: S101  # the runner is set up
        open_now = server.connections
        for oldest in open_now[: max(0, len(open_now) + 1 - MOST)]:
            oldest.force_close()
        return server()

    def forget(self, handshake: "_Handshake") -> None:
        self._shaking.pop(handshake, None)


class _Handshake(asyncio.Protocol):
    """A connection up to the point where HTTP begins."""

    def __init__(self, site: BoundedSite, tls: ssl.SSLContext) -> None:
        self._site, self._tls = site, tls
        self._transport: asyncio.BaseTransport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # type: ignore[explicit-override]  # likewise
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # asyncio gives stream protocols these
        transport.pause_reading()  # what comes belongs to TLS
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

    def give_up(self) -> None:
        self._site.forget(self)
        if self._task:
            self._task.cancel()


Render = Callable[[str], tuple[bytes, str]]  # for an Accept header: body and content type
Ask = Callable[[str], Awaitable[AccessDecision]]  # about an Authorization header


async def nobody_is_asked(_: str) -> AccessDecision:
    return access.ALLOWED


def metrics_app(render: Render, *, ask: Ask, count: Callable[[int], None]) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        answer = await ask(request.headers.get("Authorization", ""))
        count(answer.status)
        if answer.status is not access.ScrapeStatus.ALLOWED:
            return _refusal(answer)
        body, content_type = render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    server = web.Application()
    server.add_routes([web.get(access.PATH, metrics)])
    return server


def keep(certificate: Certificate, server: web.Application) -> None:
    """As long as it serves."""

    async def keeping(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(certificate.keep(), name="certificate")
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    server.cleanup_ctx.append(keeping)


def _refusal(answer: AccessDecision) -> web.Response:
    headers = {}
    if answer.status is access.ScrapeStatus.UNKNOWN:
        headers["WWW-Authenticate"] = "Bearer"
    if answer.status is access.ScrapeStatus.TOO_MANY:
        headers["Retry-After"] = "1"
    return web.Response(status=answer.status, text=f"{answer.sentence}\n", headers=headers)
