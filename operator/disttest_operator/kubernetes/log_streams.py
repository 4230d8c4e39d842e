"""Follows the log of a container and picks its lines."""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp

from disttest_operator.core.api.api_errors import NotFoundError
from disttest_operator.kubernetes.api_session import ApiSession

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


SILENCE_SECONDS = 300  # after which a connection counts as dead: a leader writes no lines while a case runs


async def follow(
    session: ApiSession, path: str, *, prefix: str, limit_bytes: int, silence_seconds: float = SILENCE_SECONDS
) -> AsyncGenerator[str, None]:
    """Lines that begin with `prefix`, of at most `limit_bytes`, until the log ends or nothing arrives.

    A pod that is gone has no log. Other failures raise ApiServerError.
    """
    lines = LineReader(prefix, limit_bytes=limit_bytes)
    try:
        async with session.stream(path, accept="*/*") as content:
            while chunk := await _read(content, silence_seconds):
                for line in lines.feed(chunk):
                    yield line
    except NotFoundError:
        return


async def _read(content: aiohttp.StreamReader, silence_seconds: float) -> bytes:
    """The next chunk; empty at the end, and after a silence, since the connection may be dead."""
    try:
        async with asyncio.timeout(silence_seconds):
            return await content.readany()
    except TimeoutError:
        return b""
