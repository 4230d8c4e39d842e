"""What an API server would find wrong with an object, as far as unit tests need it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def problems(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """Sentences; None is what a merge patch removes."""
    if value is None:
        return
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool)):
        yield f"{path} is {value!r}, not of type {kind}"
        return
    if value not in schema.get("enum", [value]):
        yield f"{path} is {value!r}"
    match value:
        case str():
            yield from _text(schema, value, path)
        case int() | float():
            if not (schema.get("minimum", value) <= value <= schema.get("maximum", value) and isfinite(value)):
                yield f"{path} is {value}"
        case list():
            yield from _list(schema, value, path)
        case dict() if "x-kubernetes-preserve-unknown-fields" not in schema:
            yield from _object(schema, value, path)


def _text(schema: Mapping[str, Any], value: str, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{path} has {len(value)} characters"
    if schema.get("format") == "date-time":
        datetime.fromisoformat(value)


def _list(schema: Mapping[str, Any], value: list[Any], path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{path} has {len(value)} items"
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and len({tuple(item[key] for key in keys) for item in value}) < len(value):
        yield f"{path} has an item twice"
    for number, item in enumerate(value):
        yield from problems(schema["items"], item, f"{path}[{number}]")


def _object(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path} has no {name}"
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{path} has {len(value)} fields"
    for name, entry in value.items():
        known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        if known:
            yield from problems(known, entry, f"{path}.{name}")
        else:
            yield f"{path} has {name}, which would be pruned"
