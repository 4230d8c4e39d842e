"""The connection of the leader with the agent of the same pod behaves as a socket does."""

import asyncio

from disttest_runner.agent.leader_link import connect_in_process
from disttest_runner.protocol.wire import LineProtocol
from tests.support import patience


async def conversation() -> tuple[list[str], list[str]]:
    """What both ends see, in their order, if one says two things, hangs up, and the other answers meanwhile."""
    seen: tuple[list[str], list[str]] = ([], [])
    both_lost = asyncio.get_running_loop().create_future()

    def end(place: int) -> LineProtocol:
        def on_lost(_: LineProtocol) -> None:
            seen[place].append("lost")
            if all(one[-1:] == ["lost"] for one in seen):
                both_lost.set_result(None)

        return LineProtocol(lambda _, raw: seen[place].append(raw.decode()), on_lost)

    one, other = end(0), end(1)
    connect_in_process(one, other)
    one.write(b"first\nsec")
    one.write(b"ond\n" + b"x" * 100_000 + b"\n")  # codespell:ignore ond
    other.write(b"hello\n")
    one.close()
    one.write(b"too late\n")
    async with asyncio.timeout(patience.stretched(20)):
        await both_lost
    return seen


def test_what_was_written_before_the_end_arrives_and_nothing_after_it() -> None:
    one, other = asyncio.run(conversation())
    assert one == ["lost"]
    assert other == ["first", "second", "x" * 100_000, "lost"]
