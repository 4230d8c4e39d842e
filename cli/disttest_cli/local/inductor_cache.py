"""The folder in which Inductor keeps compiled code between runs on this machine."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
LIMIT_BYTES = 1 << 30  # the compiled suites leave 2 MB on the CPU; models and GPUs leave far more


@contextlib.contextmanager
def folder(environ: Mapping[str, str], temporary: Path, *, limit_bytes: int = LIMIT_BYTES) -> Iterator[str]:
    """The user's own, else one in the user's cache; where none can be written, a folder that ends with the run."""
    if own := environ.get(VARIABLE):
        yield own
        return
    kept = in_user_cache(environ)
    try:
        lock = _opened(kept) if kept else None
    except OSError:
        lock = None
    if kept is None or lock is None:
        yield str(temporary / "inductor")
        return
    try:
        _limit(kept, lock, limit_bytes)
        fcntl.flock(lock, fcntl.LOCK_SH)  # until this process ends, however it does
        yield str(kept)
    finally:
        os.close(lock)


def in_user_cache(environ: Mapping[str, str]) -> Path | None:
    """By the rules of the XDG base directories: a relative path does not count."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME", ""), ".cache")
    return base / "disttest" / "inductor" if base.is_absolute() else None


def _opened(kept: Path) -> int | None:
    kept.mkdir(parents=True, exist_ok=True)
    return os.open(kept, os.O_RDONLY | os.O_DIRECTORY) if os.access(kept, os.W_OK) else None


def _limit(kept: Path, lock: int, limit_bytes: int) -> None:
    """Empty the cache if it has grown beyond the limit and no other run uses it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    sizes = (Path(place, name).lstat().st_size for place, _, names in os.walk(kept) for name in names)
    if sum(sizes) > limit_bytes:
        for entry in kept.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
