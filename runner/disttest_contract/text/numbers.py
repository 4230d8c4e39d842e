"""Numbers of JSON that others wrote. Larger ones than anybody means make trouble wherever they are shown or divided."""

import json
from typing import Any

from disttest_contract import limits


def loads(raw: str | bytes) -> Any:
    """As json.loads, but numbers beyond limits.NUMBER, infinity and what is no number are a ValueError."""
    return json.loads(raw, parse_int=_integer, parse_float=_number, parse_constant=_number)


def whole(value: object) -> int:
    """A text that looks like a number is none: it went past the bounds of `loads`."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise ValueError(f"{value!r:.40} is no whole number")


def real(value: object) -> float:
    if type(value) is int or type(value) is float:
        return float(value)
    raise ValueError(f"{value!r:.40} is no number")


def maybe(value: object) -> float | None:
    """None as well where it is something else: it is unknown then."""
    return real(value) if type(value) in (int, float) else None


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > limits.NUMBER:
        raise ValueError(f"a number with {len(text)} digits")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= limits.NUMBER:  # also of what is no number
        raise ValueError(f"{text:.20} is no number that anybody writes here")
    return value
