"""docs/reference/api.md: every field of the custom resources, from their definitions. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from disttest_contract.outcomes import Outcome, Verdict
from tools.docs import bullets, wrapped

Schema = Mapping[str, Any]

HEAD = """# API reference

This page lists the fields. `kubectl explain dt.spec` prints the same text.
[DistTests](../tests/disttests.md) describes how the fields work together, and
[vocabulary](vocabulary.md) explains verdicts, outcomes, reasons, phases and conditions."""
# Fields of Kubernetes itself.
EXCLUDED = frozenset({"apiVersion", "kind", "metadata"})
# Records of the operator, which only `kubectl explain` describes.
INTERNAL = frozenset({"status.totals", "status.pending[]"})
# Closed sets that another page explains.
EXPLAINED: Mapping[frozenset[str], str] = {
    frozenset(Verdict): "[verdict](vocabulary.md#verdicts)",
    frozenset(Outcome): "[outcome](vocabulary.md#outcomes)",
}
MOST_VALUES = 12  # of an enumeration; `kubectl explain` prints longer ones
SHOWN_VALUES = 3


def page(definitions: Sequence[Mapping[str, Any]]) -> str:
    """The page for these CustomResourceDefinitions."""
    printed: dict[str, str] = {}
    blocks = (block for definition in definitions for block in _kind(definition, printed))
    return "\n\n".join([HEAD, *blocks]) + "\n"


def _kind(definition: Mapping[str, Any], printed: dict[str, str]) -> Iterator[str]:
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"## {names['kind']}"
    yield wrapped(_text(schema["description"]))
    api_version, short_name = f"{spec['group']}/{version['name']}", names["shortNames"][0]
    yield f"API version `{api_version}`, {spec['scope'].lower()}, short name `{short_name}`."
    yield from _columns(version)
    for name, part in schema["properties"].items():
        if name not in EXCLUDED:
            yield from _object(f"{names['kind']}: {name}", name, part, printed)


def _columns(version: Mapping[str, Any]) -> Iterator[str]:
    """The columns of `kubectl get`, and its selectable fields."""
    yield "Columns of `kubectl get`:"
    lines = []
    for column in version.get("additionalPrinterColumns", ()):
        wide = ", `-o wide`" if column.get("priority") else ""
        lines.append(f"- {column['name']} (`{column['jsonPath']}`{wide}): {_text(column.get('description', ''))}")
    yield "\n".join(lines)
    if fields := [field["jsonPath"].lstrip(".") for field in version.get("selectableFields", ())]:
        yield f"Fields for `--field-selector`: {', '.join(f'`{field}`' for field in fields)}."


def _object(title: str, path: str, schema: Schema, printed: dict[str, str]) -> Iterator[str]:
    """The table of an object and then those of the objects in it; equal objects are printed once."""
    printed[_fields(schema)] = path
    yield f"### {title}"
    fields, inner = [], []
    for name, part in schema["properties"].items():
        mark = ", required" if name in schema.get("required", ()) else ""
        below = part.get("items", part)
        same = ""
        if below.get("properties"):
            if equal := printed.get(_fields(below)):
                same = f" Same fields as `{equal}`."
            else:
                inner_path = f"{path}.{name}{'[]' if 'items' in part else ''}"
                if inner_path in INTERNAL:
                    same = " `kubectl explain` describes its fields."
                else:
                    printed[_fields(below)] = inner_path
                    inner.append((inner_path, below))
        fields.append((f"`{name}` ({_type(part)}{mark})", f"{_description(name, part)}{same}"))
    yield bullets(fields)
    for inner_path, below in inner:
        yield from _object(f"`{inner_path}`", inner_path, below, printed)


def _fields(schema: Schema) -> str:
    return json.dumps(schema["properties"])


def _type(schema: Schema) -> str:
    if "items" in schema:
        most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        return f"{_type(schema['items'])} array{most}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"map of {_type(schema['additionalProperties'])}"
    if "enum" in schema:
        return _values(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema.get("format") == "date-time":
        return "time"
    return str(schema.get("type", "")) + _bounds(schema)


def _values(values: Sequence[str]) -> str:
    if link := EXPLAINED.get(frozenset(values)):
        return link
    if len(values) > MOST_VALUES:
        return f"{_values(values[:SHOWN_VALUES])}, … ({len(values)} values)"
    return ", ".join(f"`{value}`" for value in values)


def _bounds(schema: Schema) -> str:
    if "maximum" in schema:
        return f", {schema.get('minimum', 0)} to {schema['maximum']}"
    return f", from {schema['minimum']}" if schema.get("minimum") else ""


def _description(name: str, schema: Schema) -> str:
    """Description and default, without the field's name and maximum length, which are printed in front of it."""
    text = _text(schema.get("description", "")).removeprefix(f"{name} ").removeprefix("is ").removeprefix("are ")
    text = text[:1].upper() + text[1:]
    text = text.replace(f", at most {schema.get('maxItems')}.", ".")
    if "default" in schema and "Defaults to" not in text:
        text = f"{text} Defaults to `{json.dumps(schema['default'])}`.".lstrip()
    return text


def _text(text: str) -> str:
    """On one line, and safe within a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
