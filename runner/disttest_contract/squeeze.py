"""Compresses what may turn out too large, and stops as soon as it does."""

import zlib

ZLIB = 15  # zlib's word for its own header
GZIP = 31  # and for gzip's, which it writes without a time: the same bytes whenever it is done
LEVEL = 9
CHUNK_BYTES = 1 << 18


def squeeze(payload: bytes, limit_bytes: int, *, form: int = ZLIB) -> bytes | None:
    """None if it is larger than that: what does not shrink is given up after little more than the limit."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, form)
    parts, size = [], 0
    view = memoryview(payload)
    for begin in range(0, len(payload), CHUNK_BYTES):
        parts.append(packer.compress(view[begin : begin + CHUNK_BYTES]))
        size += len(parts[-1])
        if size > limit_bytes:
            return None
    parts.append(packer.flush())
    return b"".join(parts) if size + len(parts[-1]) <= limit_bytes else None
