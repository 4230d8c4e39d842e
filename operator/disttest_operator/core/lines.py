"""Lines out of a stream of bytes that may hold anything: those that begin with our mark, and only so long ones."""


class Lines:
    """What is too long is not kept while it comes."""

    def __init__(self, prefix: str, *, limit_bytes: int) -> None:
        self._prefix = prefix.encode()
        self._limit_bytes = limit_bytes
        self._begun = b""  # a line whose end has not come
        self._is_dropped = False  # it is none of ours

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that end in this chunk, of those that are ours."""
        first, *others = chunk.split(b"\n")
        if not self._is_dropped:
            self._begun += first[: self._limit_bytes + 1]
        if not others:
            self._look_at_begun()
            return []
        whole = [] if self._is_dropped else [self._begun]
        whole += others[:-1]
        self._begun, self._is_dropped = others[-1][: self._limit_bytes + 1], False
        self._look_at_begun()
        return [line.decode(errors="replace") for line in whole if self._is_ours(line)]

    def _look_at_begun(self) -> None:
        """Keep of a line only what may become one of ours."""
        begins_well = self._begun.startswith(self._prefix[: len(self._begun)])
        if not begins_well or len(self._begun) > self._limit_bytes:
            self._begun, self._is_dropped = b"", True

    def _is_ours(self, line: bytes) -> bool:
        return line.startswith(self._prefix) and len(line) <= self._limit_bytes
