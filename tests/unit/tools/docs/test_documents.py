"""Pages made from the code: nothing of it is missing in them."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import pytest

from disttest_cli.main import COMMANDS, commands
from disttest_contract.outcomes import EXIT_CODES, Outcome, Reason, Verdict
from disttest_operator.core.api import conditions
from disttest_operator.core.api.conditions import ConditionType
from disttest_operator.core.api.model import Phase
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
                                    "letter": {"type": "string", "enum": [*"abcdefghijklm"]},
                                    "verdict": {"type": "string", "enum": [*Verdict]},
                                    "names": {
                                        "type": "array",
                                        "maxItems": 4,
                                        "items": {"type": "string"},
                                        "description": "names are those of nodes, at most 4.",
                                    },
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
        "API version `disttest.dev/v1`, namespaced, short name `th`.",
        "- Size (`.spec.size`, `-o wide`): ",
        "- `size` (integer, 1 to 9, required): Defaults to `3`.",
        "- `parts` (object array, at most 2):",
        "### `spec.parts[]`",
        "- `kind` (`x`, `y`): X &lt; y",
        "- `letter` (`a`, `b`, `c`, … (13 values)):",
        "- `verdict` ([verdict](vocabulary.md#verdicts)):",
        "- `names` (string array, at most 4): Those of nodes.",
    ],
)
def test_a_field_has_its_type_bounds_and_default(line: str) -> None:
    assert line in [text.replace("Thing: ", "") for text in api.page([DEFINITION]).splitlines()]


@pytest.mark.parametrize("name", documents.PAGES)
def test_a_generated_page_matches_the_code(name: str) -> None:
    assert (documents.ROOT / name).read_text() == documents.PAGES[name](), "run `python -m tools.docs`"


def test_every_field_of_the_custom_resources_is_in_the_reference() -> None:
    """Objects with the same fields are printed once, and those of internal records not at all."""
    page = documents.PAGES["docs/reference/api.md"]()
    names = {line.split("`")[1] for line in page.splitlines() if line.startswith("- `")}
    parts = [
        (name, schema["properties"][name])
        for schema in documents.schemas()
        for name in ("spec", "status")
        if name in schema["properties"]
    ]
    assert names == {field for name, part in parts for field in _fields(name, part)}
    for place in re.findall(r"Same fields as `([^`]*)`", page):
        assert f"### `{place}`" in page


def _fields(path: str, schema: Mapping[str, Any]) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        yield name
        inner = f"{path}.{name}{'[]' if 'items' in part else ''}"
        if inner not in api.INTERNAL:
            yield from _fields(inner, part.get("items", part))


def test_every_command_and_option_is_in_the_reference() -> None:
    page = command_line.page()
    for name in COMMANDS:
        assert f"## disttest {name}\n" in page
        context = commands.make_context("disttest", ["--help"], resilient_parsing=True)
        for parameter in commands.get_command(context, name).params:
            assert all(option in page for option in parameter.opts if option.startswith("-")), parameter


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        (Verdict, {word: word.description for word in Verdict}),
        (Reason, {word: word.description for word in Reason}),
        (Outcome, {word: word.description for word in Outcome}),
        (Phase, conditions.PHASES),
        (ConditionType, conditions.CONDITIONS),
    ],
)
def test_every_word_of_the_vocabulary_has_exactly_one_sentence(
    words: type[StrEnum], sentences: Mapping[StrEnum, str]
) -> None:
    assert list(sentences) == list(words), "the page has the order of the enum"
    for word, sentence in sentences.items():
        assert re.fullmatch(r"[A-Z](?:[^.!?]|\.(?=\w))+\.", sentence), word
        assert f"- `{word}`" in documents.PAGES["docs/reference/vocabulary.md"]()


def test_every_verdict_has_its_exit_code_in_the_vocabulary() -> None:
    page = documents.PAGES["docs/reference/vocabulary.md"]()
    assert [word for word, code in EXIT_CODES.items() if f"- `{word}` ({int(code)}): " not in page] == []
