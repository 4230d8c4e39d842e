"""Who beats is alive, who is silent is lost, once."""

import asyncio

from disttest_runner.protocol.wire import BEATS, Heartbeat
from tests.support import patience

SILENCE_SECONDS = 0.2
SILENT, TALKING = 1, 2


async def watched(lives: int) -> tuple[list[tuple[int, str]], int]:
    """Return lost peers and the number of sent beats, until one peer was silent for that many lives."""
    lost: list[tuple[int, str]] = []
    beats, is_over = 0, asyncio.Event()

    def send() -> None:
        nonlocal beats
        beats += 1
        heartbeat.reset(TALKING)  # it answers each beat
        if beats > lives * BEATS:
            is_over.set()

    heartbeat = Heartbeat(SILENCE_SECONDS, send, lambda peer, how: lost.append((peer, how)))
    heartbeat.reset(SILENT)
    heartbeat.reset(TALKING)
    heartbeat.start()
    async with asyncio.timeout(patience.stretched(20)):
        await is_over.wait()
    heartbeat.stop()
    return lost, beats


def test_a_silent_peer_is_lost_once_and_one_that_answers_is_not() -> None:
    lost, _ = asyncio.run(watched(lives=3))
    assert [peer for peer, _ in lost] == [SILENT]
    assert "sent nothing for more than" in lost[0][1]


def test_nobody_is_lost_before_the_time_is_over() -> None:
    lost, beats = asyncio.run(watched(lives=0))
    assert (lost, beats) == ([], 1)
