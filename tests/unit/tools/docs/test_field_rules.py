"""The generated rules of the spec's fields."""

from typing import Any

import pytest

from disttest_operator.core.api import spec_schema
from disttest_operator.core.api.schema import Boolean, ListOf, MapOf, Object, Quantity, Rule, Text, Whole
from tools.docs import __main__ as documents
from tools.docs import field_rules


def test_the_module_has_the_rules_that_are_read_from_the_crd() -> None:
    assert field_rules.read(documents.schemas()[0]["properties"]["spec"], "") == spec_schema.SPEC


def cel(rule: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": "do it"}]}


PAIRS = {"type": "array", "maxItems": 3, "items": {"type": "object", "required": ["a"], "properties": {}}}
PAIR = Object(required=("a",), fields={})
NAMES = {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "boolean"}}


@pytest.mark.parametrize(
    ("node", "rule"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9, "default": 3}, Whole(minimum=1, maximum=9, default=3)),
        ({"type": "boolean"}, Boolean()),
        ({"x-kubernetes-int-or-string": True}, Quantity()),
        ({"type": "string", "maxLength": 9, "enum": ["x"]}, Text(max_length=9, choices=("x",))),
        (
            {"type": "string", "maxLength": 9, **cel(r"self.matches('^a\\.b$')")},
            Text(max_length=9, pattern=r"^a\.b$", advice="do it"),
        ),
        (
            PAIRS | cel("self.all(x, self.exists_one(y, y.a == x.a))"),
            ListOf(item=PAIR, max_items=3, unique=("a",), advice="do it"),
        ),
        (
            PAIRS | cel("self.all(x, self.exists_one(y, has(y.b) == has(x.b) && (!has(x.b) || y.b == x.b)))"),
            ListOf(item=PAIR, max_items=3, unique=("b",), advice="do it"),
        ),
        (
            NAMES | cel("self.all(key, !(key in ['a', 'b']) && !key.startsWith('c/'))"),
            MapOf(
                value=Boolean(),
                max_properties=2,
                key_pattern="",
                key_advice="",
                reserved=("a", "b"),
                reserved_prefixes=("c/",),
                reserved_advice="do it",
            ),
        ),
        (
            NAMES | cel("self.all(key, key.matches('^a$'))"),
            MapOf(value=Boolean(), max_properties=2, key_pattern="^a$", key_advice="do it"),
        ),
        ({"type": "object", "properties": {}, "default": {}}, Object(fields={}, has_default=True)),
    ],
    ids=str,
)
def test_a_rule_is_read_from_openapi_and_cel(node: dict[str, Any], rule: Rule) -> None:
    assert field_rules.read(node, "somewhere") == rule


@pytest.mark.parametrize(
    "expression",
    [
        "self.all(x, self.exists_one(y, y.a == x.a || y.a.startsWith(x.a)))",
        "self.all(x, self.exists_one(y, y.a == x.b))",
        "size(self) > 1",
    ],
)
def test_other_cel_rules_are_left_to_be_written_by_hand(expression: str) -> None:
    assert field_rules.read(PAIRS | cel(expression), "somewhere") == ListOf(item=PAIR, max_items=3)


def test_a_field_of_an_unknown_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="somewhere: no rule for the type number"):
        field_rules.read({"type": "number"}, "somewhere")


def test_fields_that_users_are_likely_to_try_are_refused_with_the_reason() -> None:
    assert "resourceClaims" in spec_schema.SPEC.not_yet
    assert "containers" in spec_schema.POD.ours


def test_messages_are_those_of_rules_over_several_fields() -> None:
    assert spec_schema.MESSAGES["timeouts"] == ("caseSeconds must not exceed runSeconds",)
    assert "env[].name" in spec_schema.MESSAGES
    assert not any("create a new DistTest" in text for texts in spec_schema.MESSAGES.values() for text in texts)
