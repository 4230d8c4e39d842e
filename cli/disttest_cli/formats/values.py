"""Numbers, times, ranks and names of a report as text. Reports can be forged, so no value is taken as valid."""

import math
from datetime import UTC, datetime

from disttest_contract import limits
from disttest_contract.text import formatting

MOST_SECONDS = 1e11  # limit of times and durations: the year 5138


def seconds(value: float | None) -> float:
    """0 for an invalid duration."""
    return min(value, MOST_SECONDS) if value is not None and math.isfinite(value) and value > 0 else 0.0


def milliseconds(value: float | None) -> int:
    return round(seconds(value) * 1000)


def moment(value: float | None) -> datetime | None:
    """None for an invalid time."""
    known = seconds(value)
    return datetime.fromtimestamp(known, UTC) if known else None


UNKNOWN = "unknown"
RANKS_BYTES = 60
MINUTE, HOUR = 60, 3600


def known(number: object) -> float | None:
    """The number if it is finite and in a sensible range, else None."""
    if not isinstance(number, (int, float)) or not math.isfinite(number) or not 0 <= number < 1e12:
        return None
    return float(number)


def duration(seconds: float | None) -> str:
    """Three digits below a minute: 0.05 s, 12.4 s, 12 min 52 s, 3 h 05 min."""
    seconds = known(seconds)
    if seconds is None:
        return UNKNOWN
    if seconds < MINUTE:
        return f"{seconds:.{2 if seconds < 10 else 1}f} s"
    if seconds < HOUR:
        return f"{int(seconds) // MINUTE} min {int(seconds) % MINUTE:02d} s"
    return f"{int(seconds) // HOUR} h {int(seconds) % HOUR // MINUTE:02d} min"


def show_moment(timestamp: float | None) -> str:
    seconds = known(timestamp)
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if seconds else UNKNOWN
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def rank_list(some: tuple[int, ...]) -> str:
    if not some:
        return ""
    return f"rank{'s' if len(some) > 1 else ''} {limits.cut(formatting.show_ranks(some), RANKS_BYTES)}"


def where(some: tuple[int, ...], nodes: tuple[str, ...]) -> str:
    """`rank 9 on gpu-node-23`, with at most four nodes."""
    shown = f"on {', '.join(nodes[:4])}{' …' if len(nodes) > 4 else ''}" if nodes else ""
    return " ".join(part for part in (rank_list(some), shown) if part)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
