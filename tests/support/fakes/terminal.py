"""What a program has written to a terminal or pipe."""

import contextlib
import os
from collections.abc import Iterator


def read_to_end(descriptor: int) -> bytes:
    """Everything until the other end is closed, which must have happened or happen soon."""
    return b"".join(_parts(descriptor))


def _parts(descriptor: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError):  # the error of a terminal whose other end is closed
        while part := os.read(descriptor, 1 << 16):
            yield part
