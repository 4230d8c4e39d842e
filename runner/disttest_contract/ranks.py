"""Ranks in few words: `0-3,8` for 0, 1, 2, 3 and 8."""

from collections.abc import Iterable

MOST = 1 << 16  # a gang of 512 nodes with 128 ranks each


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
    ranks: list[int] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not part.isascii() or not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part!r} is neither a rank nor two with a dash between them")
        begin, end = int(first), int(last or first)
        if not begin <= end < MOST:
            raise ValueError(f"{part!r} has ranks that no gang has")
        ranks += range(begin, end + 1)
    if ranks != sorted(set(ranks)):
        raise ValueError(f"{text!r} has ranks twice or in no order")
    return tuple(ranks)
