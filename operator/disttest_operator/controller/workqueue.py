"""A queue of keys: each is queued once, runs once at a time, runs again if added meanwhile, and has a backoff."""

import asyncio
import random
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 300.0
BACKOFF_DOUBLINGS = 13  # by which the maximum is reached
JITTER = 0.2

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Not thread-safe: keys are added from the event loop of the workers."""

    def __init__(self, note_wait: Callable[[float], None] = lambda _: None) -> None:
        """`note_wait` receives for each key the seconds that it was queued."""
        self._note_wait = note_wait
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: dict[K, float] = {}  # since when, on the monotonic clock
        self._running: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._replanned: set[K] = set()  # running keys for which another run was planned since they started
        self._failures: dict[K, int] = {}
        self._open = asyncio.Event()
        self._open.set()
        self.idle = asyncio.Event()
        self.idle.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Queue the key. A running key runs again."""
        if key in self._waiting:
            return
        self._waiting[key] = time.monotonic()
        if key not in self._running:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key later, instead of when it was planned before."""
        if key in self._running:
            self._replanned.add(key)
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(max(0.0, seconds), self._fire, key)

    def add_failed(self, key: K) -> float:
        """Queue the key later after each failure; returns the pause in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause: float = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2 ** min(failures, BACKOFF_DOUBLINGS))
        pause *= 1 + random.uniform(-JITTER, JITTER)  # noqa: S311  # spreads load, keeps no secret
        self.add_after(key, pause)
        return pause

    def succeeded(self, key: K, again_seconds: float | None) -> None:
        """Reset the backoff, and plan the next run, unless a plan made meanwhile is earlier."""
        self._failures.pop(key, None)
        if key in self._replanned and (timer := self._timers.get(key)):
            planned_seconds = timer.when() - asyncio.get_running_loop().time()
            if again_seconds is not None and again_seconds < planned_seconds:
                self.add_after(key, again_seconds)
        elif again_seconds is None:
            self._cancel_timer(key)
        else:
            self.add_after(key, again_seconds)

    async def take(self) -> K:
        """The next key, which is running until `done`."""
        await self._open.wait()
        key = await self._ready.get()
        await self._open.wait()
        self._note_wait(time.monotonic() - self._waiting.pop(key))
        self._running.add(key)
        self.idle.clear()
        return key

    def done(self, key: K) -> None:
        self._running.discard(key)
        self._replanned.discard(key)
        if not self._running:
            self.idle.set()
        if key in self._waiting:
            self._ready.put_nowait(key)

    def close(self) -> None:
        """Return no other key, and cancel all plans."""
        self._open.clear()
        for key in list(self._timers):
            self._cancel_timer(key)

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
