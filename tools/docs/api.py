"""docs/api.md: every field of the custom resources, from their definitions. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

HEAD = """# API reference

Made from `manifests/crd` by `python -m tools.docs`: every field with its type, bounds and meaning, as `kubectl explain`
has them. How they work together is told in [disttests.md](disttests.md), how results are read in
[reports.md](reports.md).
"""
# Fields of Kubernetes itself, or given by the type.
LEFT_OUT = frozenset({"apiVersion", "kind", "metadata"})
TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}


def page(definitions: Sequence[Mapping[str, Any]]) -> str:
    """The page for these CustomResourceDefinitions."""
    return "\n".join([HEAD, *(line for definition in definitions for line in _kind(definition))]).rstrip() + "\n"


def _kind(definition: Mapping[str, Any]) -> Iterator[str]:
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"## {names['kind']}"
    yield ""
    place = f"`{spec['group']}/{version['name']}`, {spec['scope'].lower()}, short name `{names['shortNames'][0]}`"
    yield f"{place}. {_text(schema['description'])}"
    yield ""
    yield from _rules(schema)
    yield from _columns(version)
    for name, part in schema["properties"].items():
        if name not in LEFT_OUT:
            yield from _object(f"{names['kind']}: {name}", name, part)


def _columns(version: Mapping[str, Any]) -> Iterator[str]:
    """The columns of `kubectl get`, and its selectable fields."""
    yield "| column of `kubectl get` | from | meaning |"
    yield "|---|---|---|"
    for column in version.get("additionalPrinterColumns", ()):
        wide = " (with `-o wide`)" if column.get("priority") else ""
        yield f"| {column['name']}{wide} | `{column['jsonPath']}` | {_text(column.get('description', ''))} |"
    yield ""
    if fields := [field["jsonPath"].lstrip(".") for field in version.get("selectableFields", ())]:
        yield f"`--field-selector` knows {' and '.join(f'`{field}`' for field in fields)}."
        yield ""


def _object(title: str, path: str, schema: Schema) -> Iterator[str]:
    """The table of an object and then those of the objects in it."""
    yield f"### {title}"
    yield ""
    if schema.get("description"):
        yield _text(schema["description"])
        yield ""
    yield from _rules(schema)
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    required, inner = set(schema.get("required", ())), []
    for name, part in schema["properties"].items():
        mark = " (required)" if name in required else ""
        yield f"| `{name}`{mark} | {_type(part)} | {_meaning(part, said=_messages(schema))} |"
        if below := _below(part):
            inner.append((f"{path}.{name}{'[]' if 'items' in part else ''}", below))
    yield ""
    for below_path, below in inner:
        yield from _object(f"`{below_path}`", below_path, below)


def _below(schema: Schema) -> Schema | None:
    """The object of a field or of the items of a list."""
    schema = schema.get("items", schema)
    return schema if schema.get("properties") else None


def _type(schema: Schema) -> str:
    if "items" in schema:
        most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        return f"list of {_plural(schema['items'])}{most}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        most = f", at most {schema['maxProperties']}" if "maxProperties" in schema else ""
        return f"names and {_type(schema['additionalProperties'])}{most}"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "whole number or text"
    if schema.get("format") == "date-time":
        return "time"
    kind = str(schema.get("type", ""))
    return TYPES.get(kind, kind) + _bounds(schema)


def _plural(schema: Schema) -> str:
    return "objects" if schema.get("type") == "object" else _type(schema)


def _bounds(schema: Schema) -> str:
    if "maximum" in schema:
        return f", {schema.get('minimum', 0)} to {schema['maximum']}"
    if schema.get("minimum"):
        return f", from {schema['minimum']}"
    return f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""


def _meaning(schema: Schema, said: list[str]) -> str:
    """Description, default and validation messages, except those in `said`, which belong to the whole object."""
    words = [_text(schema.get("description", ""))]
    if "default" in schema:
        words.append(f"Default: `{json.dumps(schema['default'])}`.")
    words += [f"*{_text(message)}.*" for message in _messages(schema) if message not in said]
    return " ".join(word for word in words if word)


def _rules(schema: Schema) -> Iterator[str]:
    """The messages with which the API server refuses the object."""
    messages = _messages(schema)
    if messages:
        yield "Refused, in these words:"
        yield ""
        yield from (f"- {_text(message)}" for message in messages)
        yield ""


def _messages(schema: Schema) -> list[str]:
    """Validation messages without duplicates: several rules may share one."""
    messages = [rule.get("message", "") for rule in schema.get("x-kubernetes-validations", ())]
    return list(dict.fromkeys(message.rstrip(".") for message in messages if message))


def _text(words: str) -> str:
    """Text for a cell of a table."""
    return " ".join(words.split()).replace("|", "\\|").replace("<", "&lt;")
