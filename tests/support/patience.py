"""Deadlines of tests that follow what the machine gives: a second is one of a machine that is as busy as tests make it.

A deadline keeps a test from hanging. Where other processes want the processors it comes later, by as much as they make
everything slower; where nothing else runs, it is as written.
"""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

USUAL_PER_CORE = 2.0  # processes that want a core while tests run in one process for each core
MOST_TIMES = 10.0
POLL_SECONDS = 0.02
LOAD = Path("/proc/loadavg")


def slowdown() -> float:
    """How many times longer work takes at present than on a machine that runs only these tests."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return times_slower(os.getloadavg()[0], _runnable(), cores)


def times_slower(load: float, runnable: int, cores: int) -> float:
    """Of the average of a minute, which knows the rest of a burst, and of now, which knows its start."""
    usual = USUAL_PER_CORE * cores
    return min(MOST_TIMES, max(1.0, load / usual, runnable / usual))


def _runnable() -> int:
    """Processes and threads that run or want to; 0 where the kernel does not say."""
    try:
        return int(LOAD.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError):
        return 0


def stretched(seconds: float) -> float:
    """For a timeout that something else keeps: a process, a socket, a run."""
    return seconds * slowdown()


def whole(seconds: int) -> int:
    """The same for a DistTest, whose seconds are whole."""
    return math.ceil(stretched(seconds))


class Deadline:
    """Counts seconds as long as the machine makes them."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._left, self._looked = now, seconds, now()

    def has_passed(self, slower: Callable[[], float] = slowdown) -> bool:
        now = self._now()
        self._left -= (now - self._looked) / slower()
        self._looked = now
        return self._left < 0


def wait_until(
    what: str,
    probe: Callable[[], T | None],
    seconds: float,
    *,
    details: Callable[[], str] = lambda: "",
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """The first value of `probe` that is true; fails with what was waited for, the last value and the details."""
    deadline, started = Deadline(seconds), time.monotonic()
    while not (value := probe()):
        if deadline.has_passed():
            waited = time.monotonic() - started
            pytest.fail(f"not after {waited:.0f} s (deadline {seconds:g} s): {what}; last seen: {value!r}\n{details()}")
        time.sleep(poll_seconds)
    return value
