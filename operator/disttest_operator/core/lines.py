"""Lines out of a stream of bytes that may hold anything: those that begin with our mark, and only so long ones."""

NEWLINE = b"\n"
NEWEST = 16  # of those that come at once: each says all there is to say


class Lines:
    """What is too long is not kept while it comes, and lines of others are not looked at: there may be millions."""

    def __init__(self, prefix: str, *, limit_bytes: int) -> None:
        self._prefix = prefix.encode()
        self._limit_bytes = limit_bytes
        self._begun = b""  # a line whose end has not come
        self._is_dropped = False  # it is none of ours

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that end in this chunk, of those that are ours."""
        if self._is_dropped:
            _, end, chunk = chunk.partition(NEWLINE)
            if not end:
                return []
        text = self._begun + chunk
        ended = text.rfind(NEWLINE) + 1
        self._begun, self._is_dropped = text[ended : ended + self._limit_bytes + 1], False
        self._look_at_begun()
        return [line.decode(errors="replace") for line in self._ours(text, ended)]

    def _look_at_begun(self) -> None:
        """Keep of a line only what may become one of ours."""
        begins_well = self._begun.startswith(self._prefix[: len(self._begun)])
        if not begins_well or len(self._begun) > self._limit_bytes:
            self._begun, self._is_dropped = b"", True

    def _ours(self, text: bytes, ended: int) -> list[bytes]:
        """The newest ones, the oldest of these first."""
        found: list[bytes] = []
        stop = ended
        while stop > 0 and len(found) < NEWEST:
            stop = text.rfind(NEWLINE + self._prefix, 0, stop)
            begin = stop + 1  # where nothing is found the text's own beginning is left
            if stop < 0 and not text.startswith(self._prefix):
                break
            end = text.index(NEWLINE, begin)
            if end - begin <= self._limit_bytes:
                found.append(text[begin:end])
        return found[::-1]
