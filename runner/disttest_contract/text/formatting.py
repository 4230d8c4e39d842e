"""What of a case's message says most. It begins with who; pytest marks the lines on what was wrong with an E."""

import functools
from collections.abc import Iterable, Iterator
from datetime import datetime

PYTEST_MARK = "E  "


def marked(message: str) -> list[str]:
    """What was wrong, by those lines; empty where pytest has marked none."""
    lines = message.splitlines()
    found = [line.removeprefix(PYTEST_MARK).strip() for line in lines if line.startswith(PYTEST_MARK)]
    return [line for line in found if line]


def who_and_what(message: str) -> str:
    """One line: `rank 3 on node-b: AssertionError: 1 != 2`. Where nothing is marked the last line says most."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    first, rest = lines[0], [*marked(message)[:1], *lines[1:][-1:]]
    return f"{first} {rest[0]}" if first.endswith(":") and rest else first


def short(message: str) -> str:
    """Who, and all that was wrong, without the source around it; the whole message where nothing is marked."""
    lines, found = message.strip().splitlines(), marked(message)
    return "\n".join([*lines[:1], *found]) if found and not lines[0].startswith(PYTEST_MARK) else message


MOST = 1 << 16  # a gang of 512 nodes with 128 ranks each
DIGITS = len(str(MOST))


def show_ranks(ranks: Iterable[int]) -> str:
    """Each once, in order."""
    ordered = sorted(set(ranks))
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:  # as mostly: hundreds without a gap
        return f"{ordered[0]}-{ordered[-1]}"
    runs: list[tuple[int, int]] = []
    for rank in ordered:
        first = runs.pop()[0] if runs and runs[-1][1] == rank - 1 else rank
        runs.append((first, rank))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def read_ranks(text: str) -> tuple[int, ...]:
    """Raises ValueError for what `show` would not have written, and for ranks that no gang has."""
    return tuple(rank for span in _spans(text) for rank in _every()[span.start : span.stop])


def read_rank(text: str) -> int:
    """A key of JSON. Raises ValueError."""
    found = read_ranks(text)
    if len(found) != 1:
        raise ValueError(f"{text!r:.40} is not one rank")
    return found[0]


def count_ranks(text: str) -> int:
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


MINUTE, HOUR, DAY = 60, 3600, 86400
NEVER = ""


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago, as kubectl says it; nothing where there is no time."""
    return NEVER if moment is None else span(max(0, int((now - moment).total_seconds())))


def span(seconds: float | None) -> str:
    """Two units at most: 0.4s, 12s, 1m18s, 2h10m, 4d3h."""
    if seconds is None:
        return NEVER
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    for size, unit, part, smaller in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "m"), (MINUTE, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"


BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
BYTES_PER_SECOND = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
DECIMALS = (1, 3, 6)  # behind the point


def show_bytes(count: int) -> str:
    """1 GiB, 512 KiB, 1000 B: in the largest unit that is exact."""
    for size, unit in BYTES:
        if count and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} B"


def show_speeds(one: float, other: float) -> tuple[str, str]:
    """380.0 GB/s and 400.0 GB/s: with as many digits as it takes to tell them apart, if six do."""
    for digits in DECIMALS:
        shown = _speed(one, digits), _speed(other, digits)
        if shown[0] != shown[1]:
            break
    return shown


def show_speed(bytes_per_second: float) -> str:
    """400.0 GB/s."""
    return _speed(bytes_per_second, DECIMALS[0])


def _speed(bytes_per_second: float, digits: int) -> str:
    size, unit = next(((size, unit) for size, unit in BYTES_PER_SECOND if bytes_per_second >= size), (1.0, "B/s"))
    return f"{bytes_per_second / size:.{digits}f} {unit}"
