"""One process at a time, and those that wait say so."""

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def held(file: Path, what: str, say: Callable[[str], None]) -> Iterator[int]:
    """Gives the descriptor: a process that inherits it holds the lock too, until the last of them has ended."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process {what}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
