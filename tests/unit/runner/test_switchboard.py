"""The leader's door: more connections than it can know are not kept waiting."""

import asyncio

from disttest_runner import switchboard
from disttest_runner.switchboard import MAX_STRANGERS, Switchboard
from tests.unit.runner.test_door import PLAN

CLOSED_WITHIN_SECONDS = switchboard.HELLO_SECONDS / 2  # long before strangers are closed for their silence


async def strangers_beyond_the_limit(beyond: int) -> list[bytes]:
    """What those read who come last."""
    board = Switchboard(PLAN, "nonce", 25.0, lambda _: None)
    server = await asyncio.get_running_loop().create_server(board.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_STRANGERS + beyond)]
    try:
        async with asyncio.timeout(CLOSED_WITHIN_SECONDS):
            return [await reader.read() for reader, _ in opened[-beyond:]]
    finally:
        for _, writer in opened:
            writer.close()
        server.close()


def test_a_flood_of_strangers_is_turned_away_at_once() -> None:
    assert asyncio.run(strangers_beyond_the_limit(3)) == [b"", b"", b""]
