"""Logs as they grow. Each has a connection of its own: it must take none from those who read and write objects."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from disttest_operator.kubernetes import ports
from disttest_operator.kubernetes.ports import ClusterError

NEWLINE = b"\n"
NEWEST = 16  # of those that come at once: each says all there is to say


class LineReader:
    """What is too long is not kept while it comes, and lines of others are not looked at: there may be millions."""

    def __init__(self, prefix: str, *, limit_bytes: int) -> None:
        self._prefix = prefix.encode()
        self._limit_bytes = limit_bytes
        self._begun = b""  # a line whose end has not come
        self._is_dropped = False  # it is none of ours

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that end in this chunk, of those that are ours."""
        if self._is_dropped:
            _, end, chunk = chunk.partition(NEWLINE)
            if not end:
                return []
        text = self._begun + chunk
        ended = text.rfind(NEWLINE) + 1
        self._begun, self._is_dropped = text[ended : ended + self._limit_bytes + 1], False
        self._look_at_begun()
        return [line.decode(errors="replace") for line in self._ours(text, ended)]

    def _look_at_begun(self) -> None:
        """Keep of a line only what may become one of ours."""
        begins_well = self._begun.startswith(self._prefix[: len(self._begun)])
        if not begins_well or len(self._begun) > self._limit_bytes:
            self._begun, self._is_dropped = b"", True

    def _ours(self, text: bytes, ended: int) -> list[bytes]:
        """The newest ones, the oldest of these first."""
        found: list[bytes] = []
        stop = ended
        while stop > 0 and len(found) < NEWEST:
            stop = text.rfind(NEWLINE + self._prefix, 0, stop)
            begin = stop + 1  # where nothing is found the text's own beginning is left
            if stop < 0 and not text.startswith(self._prefix):
                break
            end = text.index(NEWLINE, begin)
            if end - begin <= self._limit_bytes:
                found.append(text[begin:end])
        return found[::-1]


ANSWER_SECONDS = 15  # until the first byte of an answer
SILENCE_SECONDS = 300  # after which the connection is taken for dead: a leader has nothing to say while a case lasts
NO_END: Final = aiohttp.ClientTimeout(total=None)
ERROR_BYTES = 4096  # of an answer that is an error

Headers = Callable[[], Awaitable[Mapping[str, str]]]


class LogStreams:
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
        lines = LineReader(prefix, limit_bytes=limit_bytes)
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
                    raise ports.error_of_answer(response.status, what, await response.content.read(ERROR_BYTES))
                patience.reschedule(None)
                yield response
