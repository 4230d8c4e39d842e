"""Rules for single values of a spec, and the check of a value against them.

The CRD's OpenAPI schema says the same to the API server; a test walks both and fails where they differ.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string. `pattern` must match all of it, else `advice` says what to write; `choices` closes the set."""

    max_length: int
    min_length: int = 0
    pattern: str = ""
    advice: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number."""

    minimum: int
    maximum: int
    default: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean:
    """true or false."""

    default: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """An amount of a resource: a whole number or a Kubernetes quantity such as 500m or 16Gi."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list. Entries that agree in all fields of `unique` are refused, if it has any; `advice` says what to write."""

    item: "Rule"
    max_items: int
    min_items: int = 0
    unique: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping with free keys. `reserved` keys and prefixes are ours or another controller's."""

    value: "Rule"
    max_properties: int
    key_pattern: str = ""
    key_advice: str = ""
    reserved: tuple[str, ...] = ()
    reserved_prefixes: tuple[str, ...] = ()
    reserved_advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """A mapping with known fields. `refused` are fields that people may try, with the reason why not."""

    fields: Mapping[str, "Rule"]
    required: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    has_default: bool = False  # the server fills in {} and with it the defaults inside


Rule = Text | Whole | Boolean | Quantity | ListOf | MapOf | Object

# As the API server writes them, without sign and exponent: nobody asks for -1 or 1e3 bytes on purpose.
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
QUANTITY_LENGTH = 32
QUANTITY_MAXIMUM = 2**53


def check(rule: Rule, value: Any, path: str) -> Iterator[str]:
    """Yield a sentence for everything that is wrong with `value`, each beginning with the path of the field."""
    match rule:
        case Text():
            yield from _check_text(rule, value, path)
        case Whole():
            if isinstance(value, bool) or not isinstance(value, int) or not rule.minimum <= value <= rule.maximum:
                yield f"{path}: write a whole number from {rule.minimum} to {rule.maximum}, not {_show(value)}"
        case Boolean() if not isinstance(value, bool):
            yield f"{path}: write true or false, not {_show(value)}"
        case Quantity() if not is_quantity(value):
            yield f"{path}: write a quantity such as 4, 500m or 16Gi, not {_show(value)}"
        case Boolean() | Quantity():
            pass
        case ListOf():
            yield from _check_list(rule, value, path)
        case MapOf():
            yield from _check_map(rule, value, path)
        case Object():
            yield from _check_object(rule, value, path)


def normalise(value: Any) -> Any:
    """What the API server makes of a value before it checks it: nulls are absent, 2.0 is 2."""
    match value:
        case Mapping():
            return {key: normalise(entry) for key, entry in value.items() if entry is not None}
        case list():
            return [normalise(entry) for entry in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def is_quantity(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 0 <= value <= QUANTITY_MAXIMUM
    return isinstance(value, str) and len(value) <= QUANTITY_LENGTH and matches(QUANTITY, value)


def matches(pattern: str, text: str) -> bool:
    """Like the API server's: `$` is the end of the text, not a place before a last newline."""
    return re.search(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern, text) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name."""
    known = sorted(known)
    lowered = {entry.lower(): entry for entry in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean {lowered[close[0]]}?" if close else f"known fields: {', '.join(known)}"


def _check_text(rule: Text, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: write a string (in quotes, if it looks like something else), not {_show(value)}"
    elif rule.choices and value not in rule.choices:
        yield f"{path}: write one of {', '.join(rule.choices)}, not {_show(value)}"
    elif len(value) < rule.min_length:
        yield f"{path}: write at least {rule.min_length} character, or leave the field out"
    elif len(value) > rule.max_length:
        yield f"{path}: write at most {rule.max_length} characters, these are {len(value)}"
    elif rule.pattern and not matches(rule.pattern, value):
        yield f"{path}: {rule.advice}"


def _check_list(rule: ListOf, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: write a list, not {_show(value)}"
        return
    if not rule.min_items <= len(value) <= rule.max_items:
        yield f"{path}: write {rule.min_items} to {rule.max_items} entries, these are {len(value)}"
        return
    for index, item in enumerate(value):
        yield from check(rule.item, item, f"{path}[{index}]")
    if rule.unique:
        keys = [tuple(item.get(name) for name in rule.unique) for item in value if isinstance(item, Mapping)]
        if any(key in keys[:index] for index, key in enumerate(keys)):
            yield f"{path}: {rule.advice}"


def _check_map(rule: MapOf, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: write a mapping of names to values, not {_show(value)}"
        return
    if len(value) > rule.max_properties:
        yield f"{path}: write at most {rule.max_properties} entries, these are {len(value)}"
        return
    if any(str(key) in rule.reserved or str(key).startswith(rule.reserved_prefixes) for key in value):
        yield f"{path}: {rule.reserved_advice}"
    if rule.key_pattern and not all(isinstance(key, str) and matches(rule.key_pattern, key) for key in value):
        yield f"{path}: {rule.key_advice}"
    for key, entry in value.items():
        yield from check(rule.value, entry, f"{path}[{key}]")


def _check_object(rule: Object, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: write a mapping with {', '.join(rule.fields)}, not {_show(value)}"
        return
    for name in rule.required:
        if name not in value:
            yield f"{path}.{name}: is missing, write it"
    for key, entry in value.items():
        name = str(key)
        if name in rule.fields:
            yield from check(rule.fields[name], entry, f"{path}.{name}")
        elif name in rule.refused:
            yield f"{path}.{name}: {rule.refused[name]}"
        else:
            yield f"{path}.{name}: is unknown; {nearest(name, rule.fields)}"


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_1035 = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

NOT_YET = "is not supported by this version of DistTest; leave it out"
OURS = "is set by the operator; leave it out"

NAME = Text(
    min_length=1,
    max_length=63,
    pattern=DNS_LABEL,
    advice="write lower-case letters, digits and '-', beginning and ending with a letter or digit",
)


def object_name(what: str) -> Text:
    return Text(
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
        advice=f"write the name of {what}: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )
