"""The report at the end of the leader's log: compressed, in lines with the attempt's nonce and a checksum.

DISTTEST-REPORT <nonce> begin <lines> <sha256 of the bytes>
DISTTEST-REPORT <nonce> <number> <base64 of a part of the zlib stream>
DISTTEST-REPORT <nonce> end
"""

import base64
import binascii
import functools
import hashlib
import re
import zlib
from dataclasses import dataclass

from disttest_contract import limits

MARK = "DISTTEST-REPORT"
ZLIB = 15  # wbits for zlib's header
GZIP = 31  # wbits for gzip's header, written without a time: equal input gives equal bytes
LEVEL = 9
CHUNK_BYTES = 1 << 18
PIECE_BYTES = 1 << 16


def squeeze(payload: bytes, limit_bytes: int, *, form: int = ZLIB) -> bytes | None:
    """Compress; return None as soon as the result exceeds the limit."""
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


class FrameError(ValueError):
    """The log contains no complete report; the message explains why."""


class NoFrameError(FrameError):
    """The log contains no part of a report: the leader did not finish."""


def encode(payload: bytes, nonce: str) -> list[str]:
    return _lines(zlib.compress(payload, LEVEL), payload, nonce)


def encode_within(payload: bytes, nonce: str, limit_bytes: int) -> list[str] | None:
    """Return the lines, or None if they have more than `limit_bytes`."""
    packed = squeeze(payload, limit_bytes * 3 // 4)  # base64 takes 4 bytes for 3
    if packed is None:
        return None
    lines = _lines(packed, payload, nonce)
    return lines if sum(len(line) + 1 for line in lines) <= limit_bytes else None


def _lines(packed: bytes, payload: bytes, nonce: str) -> list[str]:
    text = base64.b64encode(packed).decode()
    size = limits.FRAME_LINE_BYTES - 128
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    digest = hashlib.sha256(payload).hexdigest()
    return [
        f"{MARK} {nonce} begin {len(parts)} {digest}",
        *(f"{MARK} {nonce} {number} {part}" for number, part in enumerate(parts)),
        f"{MARK} {nonce} end",
    ]


@dataclass(frozen=True, slots=True)
class FramedReport:
    """A compressed report from a log: a few KiB can expand to more than the memory of a reader."""

    stream: bytes
    digest: str

    def is_larger_than(self, limit_bytes: int) -> bool:
        """Whether it is larger when decompressed, without keeping more than a piece of it."""
        unpacker, rest, size = zlib.decompressobj(), self.stream, 0
        try:
            while (piece := unpacker.decompress(rest, PIECE_BYTES)) and size <= limit_bytes:
                rest, size = unpacker.unconsumed_tail, size + len(piece)
        except zlib.error:
            return False  # `unpack` raises an error for it
        return size > limit_bytes

    def unpack(self) -> bytes:
        unpacker = zlib.decompressobj()
        try:
            payload = unpacker.decompress(self.stream, limits.REPORT_BYTES + 1)
        except zlib.error as error:
            raise FrameError(f"the report in the leader's log cannot be unpacked: {error}") from error
        if len(payload) > limits.REPORT_BYTES:
            raise FrameError(f"the report in the leader's log is larger than {limits.REPORT_BYTES} bytes unpacked")
        if not unpacker.eof:
            raise FrameError("the report in the leader's log is incomplete: the end of its stream is missing")
        if hashlib.sha256(payload).hexdigest() != self.digest:
            raise FrameError("the report in the leader's log does not match its checksum")
        return payload


def decode(log: str, nonce: str) -> bytes:
    """Return the payload of the last frame with this nonce. Raises FrameError. Frames with other nonces are ignored."""
    return find(log, nonce).unpack()


def find(log: str, nonce: str) -> FramedReport:
    """Like `decode`, but leave decompressing to the caller, who knows how much memory is free."""
    prefix = re.escape(f"{MARK} {nonce} ")
    begins = re.finditer(rf"^{prefix}begin ([0-9]{{1,7}}) ([0-9a-f]{{64}})$", log, re.MULTILINE)
    begin = functools.reduce(lambda _, later: later, begins, None)
    if begin is None:
        raise NoFrameError("the leader's log contains no report")
    lines, digest = int(begin[1]), begin[2]
    body = re.compile(rf"^{prefix}([0-9]{{1,7}}) ([A-Za-z0-9+/=]+)$", re.MULTILINE).finditer(log, begin.end())
    parts = {number: part[2] for part in body if (number := int(part[1])) < lines}
    if missing := lines - len(parts):
        raise FrameError(f"the report in the leader's log is incomplete: {missing} of {lines} lines are missing")
    try:
        return FramedReport(base64.b64decode("".join(parts[number] for number in range(lines)), validate=True), digest)
    except binascii.Error as error:
        raise FrameError(f"the report in the leader's log cannot be unpacked: {error}") from error
