"""Texts and numbers of a report for a page. Pure. Reports can be forged: what cannot be seen is made visible."""

import math
from datetime import UTC, datetime

from markupsafe import Markup

from disttest_contract import limits
from disttest_contract.text import escaping, formatting

UNKNOWN = "unknown"
RANKS_BYTES = 60
MINUTE, HOUR = 60, 3600


def clean(value: object) -> object:
    """Of everything that goes into a page; what has been made here is left alone."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escaping.block(value)
    return value


def known(number: object) -> float | None:
    """A number that can be drawn, of what may be none."""
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


def moment(timestamp: float | None) -> str:
    """In UTC: who reads it may be anywhere."""
    seconds = known(timestamp)
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if seconds else UNKNOWN
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def rank_list(some: tuple[int, ...]) -> str:
    """Rank 9, or ranks 0-8,10 … where they are many."""
    if not some:
        return ""
    return f"rank{'s' if len(some) > 1 else ''} {limits.cut(formatting.show_ranks(some), RANKS_BYTES)}"


def where(some: tuple[int, ...], nodes: tuple[str, ...]) -> str:
    """Rank 9 on gpu-node-23."""
    shown = f"on {', '.join(nodes[:4])}{' …' if len(nodes) > 4 else ''}" if nodes else ""
    return " ".join(part for part in (rank_list(some), shown) if part)


def first_line(text: str) -> str:
    """Who, and what was wrong."""
    return formatting.who_and_what(text)


def count(number: int, noun: str) -> str:
    """1 case, 1,234 cases."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
