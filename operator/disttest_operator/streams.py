"""Logs as they grow. Each has a connection of its own: it must take none from those who read and write objects."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from disttest_operator import answers
from disttest_operator.core.lines import Lines
from disttest_operator.ports import ClusterError

ANSWER_SECONDS = 15  # until the first byte of an answer
SILENCE_SECONDS = 300  # after which the connection is taken for dead: a leader has nothing to say while a case lasts
NO_END: Final = aiohttp.ClientTimeout(total=None)
ERROR_BYTES = 4096  # of an answer that is an error

Headers = Callable[[], Awaitable[Mapping[str, str]]]


class Streams:
    """`session` is for these alone, and without a bound on its connections."""

    def __init__(
        self, session: aiohttp.ClientSession, headers: Headers, *, silence_seconds: float = SILENCE_SECONDS
    ) -> None:
        self._session = session
        self._headers = headers
        self._silence_seconds = silence_seconds

    async def close(self) -> None:
        await self._session.close()

    async def lines(self, url: str, *, prefix: str, limit_bytes: int) -> AsyncGenerator[str, None]:
        """Those that begin with `prefix` and are not longer than that, until the log ends or nothing comes."""
        lines = Lines(prefix, limit_bytes=limit_bytes)
        what = f"GET {url.partition('?')[0]}"
        try:
            async with self._open(url, what) as response:
                while chunk := await self._more(response):
                    for line in lines.feed(chunk):
                        yield line
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ClusterError(f"{what}: {type(error).__name__}: {error}") from error

    async def _more(self, response: aiohttp.ClientResponse) -> bytes:
        """Nothing at the end, and after a silence: a connection that is dead says nothing either."""
        try:
            async with asyncio.timeout(self._silence_seconds):
                return await response.content.readany() if response.status < 400 else b""
        except TimeoutError:
            return b""

    @asynccontextmanager
    async def _open(self, url: str, what: str) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": "*/*", **await self._headers()}
        async with asyncio.timeout(ANSWER_SECONDS) as patience:
            async with self._session.get(url, headers=headers, timeout=NO_END) as response:
                if response.status >= 400 and response.status != 404:  # a pod that is gone says nothing
                    raise answers.error(response.status, what, await response.content.read(ERROR_BYTES))
                patience.reschedule(None)
                yield response
