"""Dataclasses as JSON, by the types of their fields and with keys in camel case; foreign numbers within bounds.

Huge numbers break formatting and division.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, get_args

from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.text import formatting

# Types of fields that are more than their values.
Count = Annotated[int, "at least 0; less is read as 0"]
KnownOutcome = Annotated[Outcome, "errored if unknown: a newer version can have more"]
Message = Annotated[str, "cut to limits.MESSAGE_BYTES"]
Ranks = Annotated[tuple[int, ...], "as a text: 0-3,7"]
Seconds3 = Annotated[float, "written with 3 decimals"]
Seconds4 = Annotated[float, "written with 4 decimals"]


def loads(raw: str | bytes) -> Any:
    """Like json.loads, but raises ValueError for numbers beyond `limits.NUMBER`, infinity and NaN."""
    return json.loads(raw, parse_int=_integer, parse_float=_number, parse_constant=_number)


def whole(value: object) -> int:
    """Return an int. Raises ValueError for anything else, texts included: `loads` has not checked their bounds."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise ValueError(f"{value!r:.40} is not a whole number")


def real(value: object) -> float:
    if type(value) is int or type(value) is float:
        return float(value)
    raise ValueError(f"{value!r:.40} is not a number")


@functools.cache
def camel_case(name: str) -> str:
    """`size_bytes` is `sizeBytes` in JSON."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class JsonRecord:
    """A dataclass that is read from an object in JSON."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Ignore unknown keys; a missing one gives its field's default.

        Raises KeyError if a field has no default; TypeError, ValueError or AttributeError for a value of another type.
        """
        values = {}
        for name, key, read, _, is_required in _fields(cls):  # type: ignore[arg-type]  # a class is hashable
            value = data[key] if is_required else data.get(key, MISSING)
            if value is not MISSING:
                values[name] = read(value)
        return cls(**values)


class PlainRecord(JsonRecord):
    """A record that is written as its fields; with OMITS_EMPTY, empty optional ones are omitted, except for numbers."""

    __slots__ = ()
    OMITS_EMPTY: ClassVar[bool] = False

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self, omit_empty=self.OMITS_EMPTY)


def fields_to_json(record: Any, *, omit_empty: bool = False) -> dict[str, Any]:
    """Return the values of a dataclass in JSON, by their keys."""
    data = {}
    for name, key, _, write, is_required in _fields(record.__class__):
        value, is_kept = getattr(record, name), is_required or not omit_empty
        value = write(value) if value or is_kept else value
        if value or is_kept or type(value) in (int, float):
            data[key] = value
    return data


def _write(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case tuple():
            return [*map(_write, value)]
        case Mapping():
            return {str(key): one for key, one in value.items()}
        case _:
            return value.to_json() if hasattr(value, "to_json") else value


@functools.cache
def _fields(cls: Any) -> list[tuple[str, str, Callable[[Any], Any], Callable[[Any], Any], bool]]:
    """Return name, key, reader and writer of each field, and whether its key is required."""
    return [
        (
            one.name,
            camel_case(one.name),
            _reader(one.type),
            WRITERS.get(one.type, _write),
            one.default is one.default_factory is MISSING,
        )
        for one in fields(cls)
    ]


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return what reads a value of this type: enums and other dataclasses read themselves."""
    if kind in READERS:
        return READERS[kind]
    if not get_args(kind):
        read: Callable[[Any], Any] = getattr(kind, "from_json", kind)
        return read
    read = _reader(get_args(kind)[0])
    if NoneType in get_args(kind):
        return lambda value: None if value is None else read(value)
    return lambda values: tuple(map(read, values))


WRITERS: Mapping[Any, Callable[[Any], Any]] = {
    Message: lambda text: limits.cut(text, limits.MESSAGE_BYTES),
    Ranks: formatting.show_ranks,
    Seconds3: lambda seconds: round(seconds, 3),
    Seconds3 | None: lambda seconds: None if seconds is None else round(seconds, 3),
    Seconds4: lambda seconds: round(seconds, 4),
}
READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: str,
    int: whole,
    float: real,
    bool: lambda value: value is True,
    Count: lambda value: max(0, whole(value)),
    KnownOutcome: lambda value: Outcome(value) if value in list(Outcome) else Outcome.ERRORED,
    Message: lambda value: limits.cut(str(value), limits.MESSAGE_BYTES),
    Ranks: formatting.read_ranks,
    Seconds3: real,
    Seconds4: real,
    Mapping[str, str]: lambda values: {str(key): str(value) for key, value in values.items()},
    Mapping[int, str]: lambda texts: {formatting.read_rank(rank): str(text) for rank, text in texts.items()},
}


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > limits.NUMBER:
        raise ValueError(f"a number with {len(text)} digits")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= limits.NUMBER:  # NaN too
        raise ValueError(f"{text:.20} is not a valid number")
    return value
