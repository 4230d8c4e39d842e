"""The server of /metrics: what is counted, for those who may read it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from disttest_operator import reviews
from disttest_operator.certificates import Certificate
from disttest_operator.reviews import Answer

Render = Callable[[str], tuple[bytes, str]]  # for an Accept header: body and content type
Ask = Callable[[str], Awaitable[Answer]]  # about an Authorization header


async def nobody_is_asked(_: str) -> Answer:
    return reviews.ALLOWED


def app(render: Render, *, ask: Ask, count: Callable[[int], None]) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        answer = await ask(request.headers.get("Authorization", ""))
        count(answer.status)
        if answer.status is not reviews.Status.ALLOWED:
            return _refusal(answer)
        body, content_type = render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    server = web.Application()
    server.add_routes([web.get(reviews.PATH, metrics)])
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


def _refusal(answer: Answer) -> web.Response:
    headers = {}
    if answer.status is reviews.Status.UNKNOWN:
        headers["WWW-Authenticate"] = "Bearer"
    if answer.status is reviews.Status.TOO_MANY:
        headers["Retry-After"] = "1"
    return web.Response(status=answer.status, text=f"{answer.sentence}\n", headers=headers)
