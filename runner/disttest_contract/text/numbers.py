"""Read foreign JSON: numbers within bounds, since huge ones break formatting and division; keys in camel case."""

import functools
import json
from typing import Any

from disttest_contract import limits


def loads(raw: str | bytes) -> Any:
    """Like json.loads, but raises ValueError for numbers beyond `limits.NUMBER`, infinity and NaN."""
    return json.loads(raw, parse_int=_integer, parse_float=_number, parse_constant=_number)


def whole(value: object) -> int:
    """Return an int. Raises ValueError for anything else, texts included: `loads` has not checked their bounds."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise ValueError(f"{value!r:.40} is no whole number")


def real(value: object) -> float:
    if type(value) is int or type(value) is float:
        return float(value)
    raise ValueError(f"{value!r:.40} is no number")


def optional_real(value: object) -> float | None:
    """Return None if the value is missing or no number."""
    return real(value) if type(value) in (int, float) else None


@functools.cache
def camel_case(name: str) -> str:
    """`size_bytes` is `sizeBytes` in JSON."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > limits.NUMBER:
        raise ValueError(f"a number with {len(text)} digits")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= limits.NUMBER:  # NaN too
        raise ValueError(f"{text:.20} is no number that anybody writes here")
    return value
