"""Text and numbers of a report, which come from whoever wrote the tests, as no reader trips over them."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from disttest_contract import limits

MOST_SECONDS = 1e11  # of a time or duration: the year 5138


def visible(text: str) -> str:
    """Line ends and tabs as they are; what else is no printable character is spelled out, as Python does.

    So there is nothing in it that XML 1.0 forbids, UTF-8 cannot hold or a terminal obeys.
    """
    if text.isprintable():
        return text
    return "\n".join(_visible_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def _visible_line(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible_character, text))


def _visible_character(one: str) -> str:
    return one if one == "\t" or one.isprintable() else repr(one)[1:-1]


def one_line(text: str, limit_bytes: int = limits.MESSAGE_BYTES) -> str:
    """All of it in one line."""
    return limits.cut(visible(" ".join(text[: 4 * limit_bytes].split())), limit_bytes)


def block(text: str, limit_bytes: int) -> str:
    """As it is, but for its length."""
    return limits.cut(visible(text[: limit_bytes + 1]), limit_bytes)


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
