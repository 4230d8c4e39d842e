"""Short texts for people: the essence of a case's message, rank lists, durations, sizes and speeds.

Rank lists are read as well as written: `0-3,7` is how reports and progress lines name ranks.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

PYTEST_MARK = "E  "  # pytest starts the lines that explain a failure with it
MAX_RANKS = 1 << 16  # ranks: a gang of 512 nodes with 128 ranks each
DIGITS = len(str(MAX_RANKS))
MINUTE, HOUR, DAY = 60, 3600, 86400
NEVER = ""
BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
BYTES_PER_SECOND = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
DECIMALS = (1, 3, 6)


def marked_lines(message: str) -> list[str]:
    """Return the lines that pytest has marked, without the mark; empty if there are none."""
    lines = message.splitlines()
    found = [line.removeprefix(PYTEST_MARK).strip() for line in lines if line.startswith(PYTEST_MARK)]
    return [line for line in found if line]


def summary_line(message: str) -> str:
    """Return one line: `rank 3 on node-b: AssertionError: 1 != 2`; without marks the last line explains most."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    first, rest = lines[0], [*marked_lines(message)[:1], *lines[1:][-1:]]
    return f"{first} {rest[0]}" if first.endswith(":") and rest else first


def short_message(message: str) -> str:
    """Return the first line, which names the ranks, and the marked ones; the whole message if nothing is marked."""
    lines, found = message.strip().splitlines(), marked_lines(message)
    return "\n".join([*lines[:1], *found]) if found and not lines[0].startswith(PYTEST_MARK) else message


def counted(number: int, noun: str, style: str = "") -> str:
    """`1 node`, `2 nodes`; `style` is the format of the number."""
    return f"{number:{style}} {noun}{'' if number == 1 else 's'}"


def gang_size(nodes: int, ranks_per_node: int) -> str:
    """`2 nodes x 8 ranks`."""
    return f"{counted(nodes, 'node')} x {counted(ranks_per_node, 'rank')}"


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def show_ranks(ranks: Iterable[int]) -> str:
    """`0-3,7`: each rank once, in order."""
    ordered = sorted(set(ranks))
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:  # the usual case: hundreds without a gap
        return f"{ordered[0]}-{ordered[-1]}"
    runs: list[tuple[int, int]] = []
    for rank in ordered:
        first = runs.pop()[0] if runs and runs[-1][1] == rank - 1 else rank
        runs.append((first, rank))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def read_ranks(text: str) -> tuple[int, ...]:
    """Parse what `show_ranks` writes. Raises ValueError for anything else, and for ranks from MAX_RANKS on."""
    return tuple(rank for span in _spans(text) for rank in _every()[span.start : span.stop])


def read_rank(text: str) -> int:
    """Parse a JSON key that is one rank. Raises ValueError."""
    found = read_ranks(text)
    if len(found) != 1:
        raise ValueError(f"{text!r:.40} is not one rank")
    return found[0]


def count_ranks(text: str) -> int:
    """Count the ranks without a tuple of them: a few letters can name all ranks of a large gang."""
    return sum(map(len, _spans(text)))


def _spans(text: str) -> Iterator[range]:
    """Check each span before the next is parsed, so that an endless list of repeated spans ends at the second one."""
    lowest = 0  # rank that may follow
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not part.isascii() or not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part!r:.40} is neither a rank nor a range of ranks")
        begin, end = (int(word) if len(word) <= DIGITS else MAX_RANKS for word in (first, last or first))
        if not begin <= end < MAX_RANKS:
            raise ValueError(f"{part!r:.40} has ranks above the maximum")
        if begin < lowest:
            raise ValueError(f"{part!r:.40} has ranks that are repeated or not in order")
        lowest = end + 1
        yield range(begin, end + 1)


@functools.cache
def _every() -> tuple[int, ...]:
    """Share the int objects: thousands of cases name all ranks, and an int takes 28 bytes."""
    return tuple(range(MAX_RANKS))


def show_age(moment: datetime | None, now: datetime) -> str:
    """Return the age in kubectl's format; empty if there is no time."""
    return NEVER if moment is None else show_duration(max(0, int((now - moment).total_seconds())))


def show_duration(seconds: float | None) -> str:
    """`0.4s`, `12s`, `1m18s`, `2h10m`, `4d3h`: two units at most."""
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


def show_bytes(count: int) -> str:
    """`1 GiB`, `512 KiB`, `1000 B`: in the largest unit that is exact."""
    for size, unit in BYTES:
        if count and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} B"


def show_speeds(one: float, other: float) -> tuple[str, str]:
    """`380.0 GB/s` and `400.0 GB/s`, with as many decimals as it takes to make them differ, at most six."""
    for digits in DECIMALS:
        shown = _speed(one, digits), _speed(other, digits)
        if shown[0] != shown[1]:
            break
    return shown


def show_speed(bytes_per_second: float) -> str:
    """`400.0 GB/s`."""
    return _speed(bytes_per_second, DECIMALS[0])


def _speed(bytes_per_second: float, digits: int) -> str:
    size, unit = next(((size, unit) for size, unit in BYTES_PER_SECOND if bytes_per_second >= size), (1.0, "B/s"))
    return f"{bytes_per_second / size:.{digits}f} {unit}"
