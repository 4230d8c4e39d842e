"""Rules for the fields of a spec: the validation of a value, and the defaults that the API server adds."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
QUALIFIED_NAME_ADVICE = (
    "keys must be names such as app or example.com/app: letters, digits, '-', '_' and '.', with at most 63 characters"
    " after the '/'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string of at most `max_length` characters that matches `pattern`; `advice` is the message if it does not.

    If there are `choices`, the string must be one of them.
    """

    max_length: int
    min_length: int = 0
    pattern: str = ""
    advice: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    minimum: int
    maximum: int
    default: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean:
    default: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """An amount of a resource: a whole number or a string such as 500m or 16Gi."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list. If `unique` names fields, no two entries may agree in all of them; `advice` is the message if they do."""

    item: "Rule"
    max_items: int
    min_items: int = 0
    unique: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping with free keys, except those that the operator or another controller sets: `reserved` and prefixes."""

    value: "Rule"
    max_properties: int
    key_pattern: str = QUALIFIED_NAME
    key_advice: str = QUALIFIED_NAME_ADVICE
    reserved: tuple[str, ...] = ()
    reserved_prefixes: tuple[str, ...] = ()
    reserved_advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """A mapping with known fields. `not_yet` and `ours` are unknown ones that users are likely to try."""

    fields: Mapping[str, "Rule"]
    required: tuple[str, ...] = ()
    not_yet: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()  # the operator sets them
    has_default: bool = False  # the API server adds {}, and then the defaults of the fields


Rule = Text | Whole | Boolean | Quantity | ListOf | MapOf | Object

# As the API server formats them, without sign and exponent: -1 and 1e3 bytes are mistakes.
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
QUANTITY_LENGTH = 32
QUANTITY_MAXIMUM = 2**53


def check(rule: Rule, value: Any, path: str) -> Iterator[str]:
    """Yield a message for every mistake in `value`; each begins with the path of its field."""
    match rule:
        case Text():
            yield from _check_text(rule, value, path)
        case Whole():
            if isinstance(value, bool) or not isinstance(value, int) or not rule.minimum <= value <= rule.maximum:
                yield f"{path}: must be an integer from {rule.minimum} to {rule.maximum}, not {_show(value)}"
        case Boolean() if not isinstance(value, bool):
            yield f"{path}: must be true or false, not {_show(value)}"
        case Quantity() if not is_quantity(value):
            yield f"{path}: must be a quantity such as 4, 500m or 16Gi, not {_show(value)}"
        case Boolean() | Quantity():
            pass
        case ListOf():
            yield from _check_list(rule, value, path)
        case MapOf():
            yield from _check_map(rule, value, path)
        case Object():
            yield from _check_object(rule, value, path)


def normalise(value: Any) -> Any:
    """Change a value as the API server does before validation: remove nulls, write 2.0 as 2."""
    match value:
        case Mapping():
            return {key: normalise(entry) for key, entry in value.items() if entry is not None}
        case list():
            return [normalise(entry) for entry in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def add_defaults(rule: Rule, value: Any) -> Any:
    """Return a value that passed `check`, with the defaults that the API server adds to it."""
    match rule:
        case Object():
            given = {name: add_defaults(rule.fields[name], entry) for name, entry in value.items()}
            return {
                name: default for name, entry in rule.fields.items() if (default := _default(entry)) is not None
            } | given
        case ListOf():
            return [add_defaults(rule.item, entry) for entry in value]
        case _:
            return value


def _default(rule: Rule) -> Any:
    """The default of an absent field; None if it has none."""
    match rule:
        case Object():
            return add_defaults(rule, {}) if rule.has_default else None
        case Text() | Whole() | Boolean():
            return rule.default
        case _:
            return None


def is_quantity(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 0 <= value <= QUANTITY_MAXIMUM
    return isinstance(value, str) and len(value) <= QUANTITY_LENGTH and matches(QUANTITY, value)


def matches(pattern: str, text: str) -> bool:
    """Match like the API server: `$` is the end of the text, not the position before a trailing newline."""
    return re.search(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern, text) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not one of `known`."""
    known = sorted(known)
    lowered = {entry.lower(): entry for entry in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean {lowered[close[0]]}?" if close else f"known fields: {', '.join(known)}"


def _check_text(rule: Text, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: must be a string; quote it if necessary, not {_show(value)}"
    elif rule.choices and value not in rule.choices:
        yield f"{path}: must be one of {', '.join(rule.choices)}, not {_show(value)}"
    elif len(value) < rule.min_length:
        yield f"{path}: must have at least {rule.min_length} character; or remove the field"
    elif len(value) > rule.max_length:
        yield f"{path}: must have at most {rule.max_length} characters, not {len(value)}"
    elif rule.pattern and not matches(rule.pattern, value):
        yield f"{path}: {rule.advice}"


def _check_list(rule: ListOf, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: must be a list, not {_show(value)}"
        return
    if not rule.min_items <= len(value) <= rule.max_items:
        yield f"{path}: must have {rule.min_items} to {rule.max_items} entries, not {len(value)}"
        return
    for index, item in enumerate(value):
        yield from check(rule.item, item, f"{path}[{index}]")
    if rule.unique:
        keys = [tuple(item.get(name) for name in rule.unique) for item in value if isinstance(item, Mapping)]
        if any(key in keys[:index] for index, key in enumerate(keys)):
            yield f"{path}: {rule.advice}"


def _check_map(rule: MapOf, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: must be a mapping of names to values, not {_show(value)}"
        return
    if len(value) > rule.max_properties:
        yield f"{path}: must have at most {rule.max_properties} entries, not {len(value)}"
        return
    if any(str(key) in rule.reserved or str(key).startswith(rule.reserved_prefixes) for key in value):
        yield f"{path}: {rule.reserved_advice}"
    if rule.key_pattern and not all(isinstance(key, str) and matches(rule.key_pattern, key) for key in value):
        yield f"{path}: {rule.key_advice}"
    for key, entry in value.items():
        yield from check(rule.value, entry, f"{path}[{key}]")


def _check_object(rule: Object, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: must be a mapping with {', '.join(rule.fields)}, not {_show(value)}"
        return
    for name in rule.required:
        if name not in value:
            yield f"{path}.{name}: is required"
    for key, entry in value.items():
        name = str(key)
        if name in rule.fields:
            yield from check(rule.fields[name], entry, f"{path}.{name}")
        elif name in rule.not_yet:
            yield f"{path}.{name}: is not supported by this version of DistTest; remove it"
        elif name in rule.ours:
            yield f"{path}.{name}: is set by the operator; remove it"
        else:
            yield f"{path}.{name}: is unknown; {nearest(name, rule.fields)}"


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_1035 = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def object_name(what: str) -> Text:
    return Text(
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
        advice=f"must be the name of {what}: lower-case letters, digits, '-' and '.', with a letter or digit at both"
        " ends",
    )
