"""Agents and leader tell each other that they live, so that silence means something.

A connection alone proves little: the kernel of a stopped process, or of a node that has frozen half, keeps it.
"""

import asyncio
from collections.abc import Callable

BEATS = 5  # in the time after which silence means that the other end is lost


class Pulse:
    """`tell` sends the beat to all peers, `lost` is called with a peer that was silent and what to say of it."""

    def __init__(self, silence_seconds: float, tell: Callable[[], None], lost: Callable[[int, str], None]) -> None:
        self._silence_seconds, self._tell, self._lost = silence_seconds, tell, lost
        self._beat_seconds = silence_seconds / BEATS
        self._heard: dict[int, float] = {}
        self._checked = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def hear(self, peer: int) -> None:
        """Anything at all came from this peer."""
        self._heard[peer] = self._loop.time()

    def start(self) -> None:
        self._checked = self._loop.time()
        self._beat()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _beat(self) -> None:
        now = self._loop.time()
        if now - self._checked > 2 * self._beat_seconds:
            # we were stopped ourselves: what they said meanwhile is still unread
            self._heard = dict.fromkeys(self._heard, now)
        self._checked = now
        self._timer = self._loop.call_later(self._beat_seconds, self._beat)
        self._tell()
        for peer, heard in list(self._heard.items()):
            if now - heard > self._silence_seconds:
                del self._heard[peer]
                self._lost(
                    peer, f"has said nothing for {now - heard:.0f} s: it is stopped, or the network to it stalls"
                )
