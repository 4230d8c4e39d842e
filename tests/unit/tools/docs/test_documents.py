"""Pages made from the code: nothing of it is missing in them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from disttest_cli.main import COMMANDS, commands
from tools.docs import __main__ as documents
from tools.docs import api, command_line

DEFINITION = {
    "spec": {
        "group": "disttest.dev",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "shortNames": ["th"]},
        "versions": [
            {
                "name": "v1",
                "additionalPrinterColumns": [{"name": "Size", "jsonPath": ".spec.size", "priority": 1}],
                "schema": {
                    "openAPIV3Schema": {
                        "description": "A thing.",
                        "properties": {
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "x-kubernetes-validations": [{"message": "write less"}],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                                    "parts": {
                                        "type": "array",
                                        "maxItems": 2,
                                        "items": {"type": "object", "properties": {"a|b": {"type": "string"}}},
                                    },
                                    "kind": {"type": "string", "enum": ["x", "y"], "description": "x < y"},
                                },
                            },
                        },
                    }
                },
            }
        ],
    }
}


@pytest.mark.parametrize(
    "line",
    [
        "`disttest.dev/v1`, namespaced, short name `th`. A thing.",
        "| Size (with `-o wide`) | `.spec.size` |  |",
        "- write less",
        "| `size` (required) | whole number, 1 to 9 | Default: `3`. |",
        "| `parts` | list of objects, at most 2 |  |",
        "### `spec.parts[]`",
        "| `kind` | `x` or `y` | x &lt; y |",
    ],
)
def test_a_field_is_told_with_its_type_bounds_default_and_rules(line: str) -> None:
    assert line in [text.replace("Thing: ", "") for text in api.page([DEFINITION]).splitlines()]


def test_every_field_of_the_custom_resources_is_in_the_reference() -> None:
    """Row by row: another object may have a field of the same name."""
    rows = [line.split("`")[1] for line in documents.PAGES["docs/api.md"]().splitlines() if line.startswith("| `")]
    parts = [
        schema["properties"][name]
        for schema in documents.schemas()
        for name in ("spec", "status")
        if name in schema["properties"]
    ]
    assert sorted(rows) == sorted(name for part in parts for name in _fields(part))


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        yield name
        yield from _fields(part.get("items", part))


def test_every_command_and_option_is_in_the_reference() -> None:
    page = command_line.page()
    for name in COMMANDS:
        assert f"## disttest {name}\n" in page
        context = commands.make_context("disttest", ["--help"], resilient_parsing=True)
        for parameter in commands.get_command(context, name).params:
            assert all(option in page for option in parameter.opts if option.startswith("-")), parameter
