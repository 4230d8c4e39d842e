"""Text and numbers of a report, which come from whoever wrote the tests, as no reader trips over them."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from disttest_contract import limits
from disttest_contract.text import escaping

MOST_SECONDS = 1e11  # of a time or duration: the year 5138


def one_line(text: str, limit_bytes: int = limits.MESSAGE_BYTES) -> str:
    """All of it in one line."""
    return limits.cut(escaping.line(text[: 4 * limit_bytes]), limit_bytes)


def block(text: str, limit_bytes: int) -> str:
    """Of several lines."""
    return limits.cut(escaping.block(text[: limit_bytes + 1]), limit_bytes)


def seconds(value: float | None) -> float:
    """0 for what is no duration."""
    return min(value, MOST_SECONDS) if value is not None and math.isfinite(value) and value > 0 else 0.0


def milliseconds(value: float | None) -> int:
    return round(seconds(value) * 1000)


def moment(value: float | None) -> datetime | None:
    """None for what is no time."""
    known = seconds(value)
    return datetime.fromtimestamp(known, UTC) if known else None


def listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
