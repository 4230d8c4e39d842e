"""Agents and leader tell each other that they live, so that silence means something.

A connection alone proves little: the kernel of a stopped process, or of a node that has frozen half, keeps it.
"""

import asyncio
from collections.abc import Callable

BEATS = 5  # in the time within which silence comes to mean that the other end is lost


class Heartbeat:
    """`tell` sends the beat to all peers, `lost` is called with a peer that was silent and what to say of it.

    Silence is counted in beats of our own: while we are stopped ourselves, nobody is silent.
    """

    def __init__(self, silence_seconds: float, tell: Callable[[], None], lost: Callable[[int, str], None]) -> None:
        self._tell, self._lost = tell, lost
        self._beat_seconds = silence_seconds / BEATS
        self._silent_beats: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, peer: int) -> None:
        """Anything at all came from this peer."""
        self._silent_beats[peer] = 0

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._beat_seconds, self._beat)
        self._tell()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _beat(self) -> None:
        self.start()
        for peer, beats in list(self._silent_beats.items()):
            self._silent_beats[peer] = beats + 1
            if beats + 1 == BEATS:
                del self._silent_beats[peer]
                seconds = beats * self._beat_seconds
                self._lost(
                    peer, f"has said nothing for over {seconds:.0f} s: it is stopped, or the network to it stalls"
                )
