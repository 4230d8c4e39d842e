"""A connection within one process: the leader and the agent of its own pod need no socket between them."""

import asyncio

from disttest_runner.compat import override
from disttest_runner.wire import Lines


def join(one: Lines, other: Lines) -> None:
    """What either writes, the other reads in the next turn of the loop."""
    ends = Inside(one), Inside(other)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    for end in ends:
        end.lines.connection_made(end)


class Inside(asyncio.Transport):
    peer: "Inside"

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self.lines = lines
        self._is_closing = False
        self._loop = asyncio.get_running_loop()

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._loop.call_soon(self.peer.read, bytes(data))

    def read(self, chunk: bytes) -> None:
        if not self._is_closing:
            self.lines.feed(chunk)

    @override
    def is_closing(self) -> bool:
        return self._is_closing

    @override
    def close(self) -> None:
        """What was written before still goes out, as it does from a socket."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self.lines.connection_lost, None)
            self._loop.call_soon(self.peer.close)
