"""Read untrusted files and pipes, with a size limit and a timeout."""

import errno
import os
import select
import stat
import sys

STDIN = "-"
SILENCE_SECONDS = 30  # timeout of a named pipe without data
PART_BYTES = 1 << 16


def read(path: str, limit_bytes: int, *, silence_seconds: float = SILENCE_SECONDS) -> bytes:
    """Read up to one byte more than the limit, so that callers can detect larger files. Raises OSError, ValueError."""
    if path == STDIN:
        return sys.stdin.buffer.read(limit_bytes + 1)
    # Opening a pipe would block until it has a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISFIFO(mode):
            return _read_pipe(descriptor, limit_bytes, silence_seconds)
        os.set_blocking(descriptor, True)
        return file.read(limit_bytes + 1)


def _read_pipe(descriptor: int, limit_bytes: int, silence_seconds: float) -> bytes:
    poll, raw = select.poll(), bytearray()
    poll.register(descriptor, select.POLLIN)
    while len(raw) <= limit_bytes:
        if not poll.poll(silence_seconds * 1000):
            raise TimeoutError(errno.ETIMEDOUT, f"no data from this pipe within {silence_seconds:g} s")
        part = os.read(descriptor, min(PART_BYTES, limit_bytes + 1 - len(raw)))
        if not part:
            break
        raw += part
    return bytes(raw)
