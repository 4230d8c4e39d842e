"""Agents can join the leader whatever unauthenticated clients send."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from disttest_runner.leader import agent_connections
from disttest_runner.leader.agent_connections import AgentConnections
from disttest_runner.protocol import wire
from tests.support import patience
from tests.support.builders.run_plans import THREE_NODES as PLAN
from tests.unit.runner.protocol.test_join_protocol import agent

MAX_STRANGERS = 16  # few: both ends of each connection are files of this process
CLOSED_WITHIN_SECONDS = agent_connections.HELLO_SECONDS / 2  # long before strangers are closed for their silence


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def leader(said: list[str]) -> AsyncIterator[tuple[AgentConnections, Callable[[], Awaitable[Connection]]]]:
    """The leader, and how to reach it; `said` is what it logs."""
    connections = AgentConnections(PLAN, "secret", 25.0, said.append, max_strangers=MAX_STRANGERS)
    server = await asyncio.get_running_loop().create_server(connections.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    opened: list[Connection] = []

    async def connect() -> Connection:
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        return opened[-1]

    try:
        async with asyncio.timeout(patience.stretched(CLOSED_WITHIN_SECONDS)):
            yield connections, connect
    finally:
        for _, writer in opened:
            writer.close()
        server.close()


def test_of_a_flood_of_strangers_the_oldest_are_turned_away_at_once() -> None:
    async def main() -> None:
        async with leader([]) as (_, connect):
            opened = [await connect() for _ in range(MAX_STRANGERS + 3)]
            assert [await reader.read() for reader, _ in opened[:3]] == [b"", b"", b""]

    asyncio.run(main())


def test_an_agent_is_let_in_through_a_flood_of_strangers() -> None:
    async def main() -> None:
        async with leader([]) as (connections, connect):
            flood = [await connect() for _ in range(2 * MAX_STRANGERS)]
            reader, writer = await connect()
            writer.write(wire.pack(agent(0).to_message()))
            assert json.loads(await reader.readline()) == {"op": "welcome"}
            flood += [await connect() for _ in range(2 * MAX_STRANGERS)]
            writer.write(wire.pack(wire.ALIVE))
            await asyncio.sleep(0)
            assert list(connections.joined) == [0]
            assert not reader.at_eof(), "who has joined is no stranger any more"

    asyncio.run(main())


# Lines that an agent would not send, with another nonce.
ODD = {
    "half a pair": b'{"op": "hello", "nonce": "\\ud800"}',
    "lists in lists": b'{"op": "hello", "nonce": ' + b"[" * 900 + b"]" * 900 + b"}",
    "deeper": b"[" * 16_000,
    "a number of thousands of digits": b'{"op": ' + b"9" * 16_000 + b"}",
    "no UTF-8": b"\xff\xfe{}",
    "nothing": b"",
    "a key twice": b'{"op": "x", "op": "hello"}',
    "NaN": b'{"op": NaN}',
}


def test_no_line_of_a_stranger_is_an_error_of_ours_and_few_are_logged() -> None:
    said: list[str] = []
    problems: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with leader(said) as (_, connect):
            for line in [*ODD.values()] * 10:
                reader, writer = await connect()
                writer.write(line + b"\n")
                assert b"refused" in await reader.read()

    asyncio.run(main())
    assert problems == []
    assert len(said) == 10
    assert all(len(line) < 300 and line.isprintable() for line in said)
