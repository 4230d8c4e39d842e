"""Paths of the cache, which outlasts a clone: built programs, images, and the state of clusters by name."""

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from devcluster.machine.settings import DevClusterError

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?")


def root() -> Path:
    if own := os.environ.get("DISTTEST_CACHE"):
        return Path(own).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).resolve() / "disttest"


def images() -> Path:
    return root() / "images"


def clusters() -> Path:
    return root() / "clusters"


def cluster(name: str) -> Path:
    if not NAME.fullmatch(name):
        raise DevClusterError(
            f"{name!r} cannot name a cluster: use up to 42 lower-case letters, digits, dots and dashes"
        )
    return clusters() / name


@contextlib.contextmanager
def hold_lock(file: Path, what: str, say: Callable[[str], None]) -> Iterator[int]:
    """Yield the descriptor; processes that inherit it keep the lock until the last of them has ended."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process {what}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
