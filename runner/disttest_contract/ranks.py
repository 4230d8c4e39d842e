"""Ranks in few words: `0-3,8` for 0, 1, 2, 3 and 8."""

import functools
from collections.abc import Iterable, Iterator

MOST = 1 << 16  # a gang of 512 nodes with 128 ranks each
DIGITS = len(str(MOST))


def show(ranks: Iterable[int]) -> str:
    """Each once, in order."""
    ordered = sorted(set(ranks))
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:  # as mostly: hundreds without a gap
        return f"{ordered[0]}-{ordered[-1]}"
    runs: list[tuple[int, int]] = []
    for rank in ordered:
        first = runs.pop()[0] if runs and runs[-1][1] == rank - 1 else rank
        runs.append((first, rank))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def read(text: str) -> tuple[int, ...]:
    """Raises ValueError for what `show` would not have written, and for ranks that no gang has."""
    return tuple(rank for span in _spans(text) for rank in _every()[span.start : span.stop])


def read_one(text: str) -> int:
    """A key of JSON. Raises ValueError."""
    found = read(text)
    if len(found) != 1:
        raise ValueError(f"{text!r:.40} is not one rank")
    return found[0]


def count(text: str) -> int:
    """How many `read` would give: a few letters may name all ranks of a large gang."""
    return sum(map(len, _spans(text)))


def _spans(text: str) -> Iterator[range]:
    """Each is looked at before the next is: what goes on for ever ends at the second one."""
    free = 0  # the lowest rank that may come
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not part.isascii() or not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part!r:.40} is neither a rank nor two with a dash between them")
        begin, end = (int(word) if len(word) <= DIGITS else MOST for word in (first, last or first))
        if not begin <= end < MOST:
            raise ValueError(f"{part!r:.40} has ranks that no gang has")
        if begin < free:
            raise ValueError(f"{part!r:.40} has ranks that were named before, or in no order")
        free = end + 1
        yield range(begin, end + 1)


@functools.cache
def _every() -> tuple[int, ...]:
    """The same numbers for all who read: thousands of cases name all ranks, and a number has 28 bytes."""
    return tuple(range(MOST))
