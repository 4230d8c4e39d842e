"""An agent's connection to the leader: retried until the leader answers, lost only once."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from disttest_contract.outcomes import Reason, Verdict
from disttest_runner.compat import override
from disttest_runner.protocol.join_protocol import Hello, RunEnd
from disttest_runner.protocol.wire import ALIVE, Heartbeat, LineProtocol, Message, WireError, unpack


def connect_in_process(one: LineProtocol, other: LineProtocol) -> None:
    """Connect two protocols: what either writes, the other reads in the next turn of the event loop."""
    ends = InProcessTransport(one), InProcessTransport(other)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    for end in ends:
        end.lines.connection_made(end)


class InProcessTransport(asyncio.Transport):
    peer: "InProcessTransport"

    def __init__(self, lines: LineProtocol) -> None:
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
        """Close after what was written before has been delivered, as a socket does."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self.lines.connection_lost, None)
            self._loop.call_soon(self.peer.close)


ATTEMPT_SECONDS = 5.0
RETRY_SECONDS = 0.1  # names of new pods resolve after a while


Dial = Callable[[LineProtocol], Awaitable[object]]  # connects to the leader; raises OSError


class NotJoinedError(Exception):
    """The agent is not part of the gang."""

    def __init__(self, run_end: RunEnd) -> None:
        super().__init__(run_end.message)
        self.run_end = run_end


class LeaderLink:
    """Messages that are sent before the leader has answered `welcome` are queued."""

    def __init__(
        self, on_message: Callable[[Message, bytes], None], on_lost: Callable[[str], None], silence_seconds: float
    ) -> None:
        self._on_message, self._on_lost = on_message, on_lost
        self._heartbeat = Heartbeat(silence_seconds, lambda: self.send(ALIVE), lambda _, what: on_lost(what))
        self._lines: LineProtocol | None = None
        self._queued: list[Message] = []

    @property
    def is_connected(self) -> bool:
        return self._lines is not None and not self._lines.is_lost

    def send(self, message: Message) -> None:
        if self._lines is None:
            self._queued.append(message)
        else:
            self._lines.send(message)

    async def connect(self, host: str, port: int, hello: Hello, seconds: float) -> None:
        """Raises NotJoinedError at the deadline, or when the leader refuses."""

        async def dial(lines: LineProtocol) -> None:
            await asyncio.get_running_loop().create_connection(lambda: lines, host, port)

        await self._connect(dial, f"{host}:{port}", hello, seconds)

    async def connect_in_process(self, accept: Callable[[], LineProtocol], hello: Hello, seconds: float) -> None:

        async def dial(lines: LineProtocol) -> None:
            connect_in_process(lines, accept())

        await self._connect(dial, "this pod", hello, seconds)

    async def _connect(self, dial: Dial, where: str, hello: Hello, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        problem = "no connection attempt"
        while (left := deadline - loop.time()) > 0:
            try:
                # not wait_for, which loses a cancellation that comes together with the result
                async with asyncio.timeout(min(left, ATTEMPT_SECONDS)):
                    await self._attempt(dial, where, hello)
            except OSError as error:  # TimeoutError is one
                problem = str(error) or type(error).__name__
            else:
                return
            await asyncio.sleep(RETRY_SECONDS)
        raise NotJoinedError(
            RunEnd(
                Verdict.INFRA_FAILED,
                Reason.RENDEZVOUS_TIMEOUT,
                f"the leader at {where} did not answer within {seconds:.0f} s ({problem}). Check that the pod of "
                "node index 0 runs, and that the network connects the pods of this namespace",
            )
        )

    async def _attempt(self, dial: Dial, where: str, hello: Hello) -> None:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[bytes] = loop.create_future()

        def on_line(_: LineProtocol, raw: bytes) -> None:
            self._heartbeat.reset(0)
            if first.done():
                message = unpack(raw)
                if message != ALIVE:
                    self._on_message(message, raw)
            else:
                first.set_result(raw)

        def on_lost(lines: LineProtocol) -> None:
            if lines is self._lines:
                self._heartbeat.stop()
                self._on_lost("closed the connection")
            elif not first.done():
                first.set_exception(ConnectionError("the connection was closed"))

        lines = LineProtocol(on_line, on_lost)
        await dial(lines)
        try:
            lines.send(hello.to_message())
            _check_answer(await first, where)
        except BaseException:
            lines.close()
            raise
        self._lines = lines
        if lines.is_lost:
            raise ConnectionError("the connection was closed")
        lines.send({"op": "clock", "time": time.time()})
        for message in self._queued:
            lines.send(message)
        self._queued = []
        self._heartbeat.start()


def _check_answer(raw: bytes, where: str) -> None:
    try:
        answer = unpack(raw)
    except WireError as error:
        raise ConnectionError(f"another program listens there: {error}") from error
    if answer.get("op") != "welcome":
        message = f"the leader at {where} answered: {answer.get('message')}"
        raise NotJoinedError(RunEnd(Verdict.INFRA_FAILED, Reason.GANG_FAILED_TO_START, message))
