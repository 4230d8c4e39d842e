"""Follows logs, each over a separate connection, so that other requests never wait for one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from disttest_operator.kubernetes import ports
from disttest_operator.kubernetes.ports import ClusterError

NEWLINE = b"\n"
NEWEST = 16  # lines of a chunk; each has the whole progress


class LineReader:
    """Splits chunks into lines and drops long and foreign lines without buffering them: there may be millions."""

    def __init__(self, prefix: str, *, limit_bytes: int) -> None:
        self._prefix = prefix.encode()
        self._limit_bytes = limit_bytes
        self._partial = b""  # a line without its end
        self._is_dropped = False  # the partial line does not match

    def feed(self, chunk: bytes) -> list[str]:
        """The matching lines that end in this chunk."""
        if self._is_dropped:
            _, end, chunk = chunk.partition(NEWLINE)
            if not end:
                return []
        text = self._partial + chunk
        ended = text.rfind(NEWLINE) + 1
        self._partial, self._is_dropped = text[ended : ended + self._limit_bytes + 1], False
        self._check_partial()
        return [line.decode(errors="replace") for line in self._matching(text, ended)]

    def _check_partial(self) -> None:
        """Keep a partial line only if it may become a matching one."""
        is_matching = self._partial.startswith(self._prefix[: len(self._partial)])
        if not is_matching or len(self._partial) > self._limit_bytes:
            self._partial, self._is_dropped = b"", True

    def _matching(self, text: bytes, ended: int) -> list[bytes]:
        """The newest matching lines, oldest first."""
        found: list[bytes] = []
        stop = ended
        while stop > 0 and len(found) < NEWEST:
            stop = text.rfind(NEWLINE + self._prefix, 0, stop)
            begin = stop + 1  # 0 if nothing is found: the beginning of the text is left
            if stop < 0 and not text.startswith(self._prefix):
                break
            end = text.index(NEWLINE, begin)
            if end - begin <= self._limit_bytes:
                found.append(text[begin:end])
        return found[::-1]


ANSWER_SECONDS = 15  # until the first byte
SILENCE_SECONDS = 300  # after which a connection counts as dead: a leader writes nothing while a case runs
NO_END: Final = aiohttp.ClientTimeout(total=None)
ERROR_BYTES = 4096  # that are read of an error

Headers = Callable[[], Awaitable[Mapping[str, str]]]


class LogStreams:
    """`session` is used for logs only and does not limit its connections."""

    def __init__(
        self, session: aiohttp.ClientSession, headers: Headers, *, silence_seconds: float = SILENCE_SECONDS
    ) -> None:
        self._session = session
        self._headers = headers
        self._silence_seconds = silence_seconds

    async def close(self) -> None:
        await self._session.close()

    async def lines(self, url: str, *, prefix: str, limit_bytes: int) -> AsyncGenerator[str, None]:
        """Lines that begin with `prefix`, of at most `limit_bytes`, until the log ends or nothing arrives."""
        lines = LineReader(prefix, limit_bytes=limit_bytes)
        what = f"GET {url.partition('?')[0]}"
        try:
            async with self._open(url, what) as response:
                while chunk := await self._read(response):
                    for line in lines.feed(chunk):
                        yield line
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ClusterError(f"{what}: {type(error).__name__}: {error}") from error

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """The next chunk; empty at the end, and after a silence, since the connection may be dead."""
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
                if response.status >= 400 and response.status != 404:  # a pod that is gone has no log
                    raise ports.error_of_answer(response.status, what, await response.content.read(ERROR_BYTES))
                patience.reschedule(None)
                yield response
