"""Following a log against a small server: what is asked, and how it ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client as kube_client

from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError, ResponseLostError
from disttest_operator.core.api.resources import Kind
from disttest_operator.kubernetes import log_streams
from disttest_operator.kubernetes.api_client import KubernetesCluster
from disttest_operator.kubernetes.api_session import ApiSession
from tests.support import patience

Answer = Callable[[web.Request, web.StreamResponse], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(answer: Answer, seen: list[str], status: int = 200) -> AsyncIterator[KubernetesCluster]:
    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(str(request.rel_url))
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        await answer(request, response)
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    async with TestServer(app) as server:
        configuration = kube_client.Configuration()
        configuration.host = str(server.make_url("")).rstrip("/")
        cluster = KubernetesCluster(configuration, lambda *_: None, connections=1)
        cluster.fence(lambda: False)  # reading is allowed
        try:
            yield cluster
        finally:
            await cluster.close()


def follow(answer: Answer, seen: list[str] | None = None, status: int = 200) -> list[str]:
    async def scenario() -> list[str]:
        async with serving(answer, [] if seen is None else seen, status) as cluster:
            lines = cluster.follow_log("gpu-ci", "leader", prefix="MARK ", tail_lines=7, limit_bytes=1000)
            return [line async for line in lines]

    return asyncio.run(asyncio.wait_for(scenario(), patience.stretched(10)))


def test_lines_come_as_they_are_written_and_the_log_ends_with_its_container() -> None:
    async def answer(_: web.Request, response: web.StreamResponse) -> None:
        for piece in (b"noise\nMARK o", b"ne\n", b"MARK two\nMARK never ended"):
            await response.write(piece)

    seen: list[str] = []
    assert follow(answer, seen) == ["MARK one", "MARK two"]
    assert seen == [
        "/api/v1/namespaces/gpu-ci/pods/leader/log?container=test&follow=true&tailLines=7&limitBytes=1000",
    ]


async def says_why(_: web.Request, response: web.StreamResponse) -> None:
    await response.write(b'{"message": "said so"}')


def test_a_pod_that_is_gone_has_no_log_lines() -> None:
    assert follow(says_why, status=404) == []


@pytest.mark.parametrize(
    ("status", "error"), [(403, RequestRefusedError), (400, RequestRefusedError), (502, ResponseLostError)]
)
def test_a_response_that_is_no_log_is_an_error_with_its_message(status: int, error: type[ApiServerError]) -> None:
    with pytest.raises(error, match=rf"GET /api/.*/log: {status} said so"):
        follow(says_why, status=status)


def test_a_connection_that_breaks_is_an_error_of_the_cluster() -> None:
    async def answer(request: web.Request, response: web.StreamResponse) -> None:
        await response.write(b"MARK one\n")
        assert request.transport
        request.transport.abort()

    with pytest.raises(ApiServerError):
        follow(answer)


def test_after_a_silence_it_ends() -> None:
    over = asyncio.Event()

    async def answer(_: web.Request, response: web.StreamResponse) -> None:
        await response.write(b"MARK one\n")
        await over.wait()

    async def no_headers() -> dict[str, str]:
        return {}

    async def scenario() -> list[str]:
        async with serving(answer, []) as cluster, aiohttp.ClientSession() as session:
            followed = log_streams.follow(
                ApiSession(cluster.server, session, no_headers),
                "/log",
                prefix="MARK ",
                limit_bytes=1000,
                silence_seconds=0.05,
            )
            lines = [line async for line in followed]
            over.set()
            return lines

    assert asyncio.run(asyncio.wait_for(scenario(), patience.stretched(10))) == ["MARK one"]


def test_streams_use_no_connection_of_other_requests() -> None:
    """With one connection for requests, many logs are followed and requests are answered."""
    waiting = asyncio.Event()

    async def answer(request: web.Request, response: web.StreamResponse) -> None:
        if request.path.endswith("/log"):
            await response.write(b"MARK one\n")
            await waiting.wait()
        else:
            await response.write(b"{}")

    async def scenario() -> None:
        async with serving(answer, []) as cluster:
            logs = [
                cluster.follow_log("gpu-ci", f"leader-{number}", prefix="MARK ", tail_lines=1, limit_bytes=1000)
                for number in range(20)
            ]
            assert [await anext(log) for log in logs] == ["MARK one"] * 20
            assert await cluster.get(Kind.RUN, "gpu-ci", "nightly") == {}
            for log in logs:
                await log.aclose()
            waiting.set()

    asyncio.run(asyncio.wait_for(scenario(), patience.stretched(10)))
