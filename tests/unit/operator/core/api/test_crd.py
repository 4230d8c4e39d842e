"""The CRDs say to the API server what the parser says here: field by field, rule by rule, word by word."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import pytest
import yaml

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Outcome, Reason, Verdict
from disttest_contract.results.measurement import COLLECTIVES, DTYPES
from disttest_contract.results.thresholds import Threshold
from disttest_operator.core.api import cross_field_rules, parse, schema, spec_schema
from disttest_operator.core.api.model import Artifacts, Phase, Quarantine, Retries, Spec, Suite, Timeouts
from disttest_operator.core.api.template import Template
from disttest_operator.core.series import history, ledger, report_retention, run_results
from tests.support.paths import ROOT

CRDS = {
    name: yaml.safe_load((ROOT / "manifests/crd" / f"{name}.yaml").read_text())
    for name in ("disttests", "disttestseries")
}
FROZEN = "a run cannot be changed once created; create another DistTest"
STAYS_CANCELLED = "a cancelled run stays cancelled; create another DistTest"
MUTABLE = {"ttlSecondsAfterFinished", "suspend", "cancel"}
VALIDATIONS = "x-kubernetes-validations"


def root(name: str) -> Mapping[str, Any]:
    [version] = CRDS[name]["spec"]["versions"]
    found: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return found


SPEC = root("disttests")["spec"]
STATUS = root("disttests")["status"]


def openapi(rule: schema.Rule) -> dict[str, Any]:  # noqa: PLR0911  # one return a kind of rule
    """What the CRD has to say of a rule, without descriptions and CEL."""
    match rule:
        case schema.Text():
            return {
                "type": "string",
                "maxLength": rule.max_length,
                **({"minLength": rule.min_length} if rule.min_length else {}),
                **({"enum": list(rule.choices)} if rule.choices else {}),
                **({"default": rule.default} if rule.default is not None else {}),
            }
        case schema.Whole() | schema.Boolean():
            default = {"default": rule.default} if rule.default is not None else {}
            if isinstance(rule, schema.Boolean):
                return {"type": "boolean"} | default
            return {"type": "integer", "format": "int64", "minimum": rule.minimum, "maximum": rule.maximum} | default
        case schema.Quantity():
            return {"x-kubernetes-int-or-string": True, "maxLength": schema.QUANTITY_LENGTH}
        case schema.ListOf():
            bounds = {"maxItems": rule.max_items} | ({"minItems": rule.min_items} if rule.min_items else {})
            return {"type": "array", "x-kubernetes-list-type": "atomic", **bounds, "items": openapi(rule.item)}
        case schema.MapOf():
            return {
                "type": "object",
                "maxProperties": rule.max_properties,
                "additionalProperties": openapi(rule.value),
            }
        case schema.Object():
            return {
                "type": "object",
                **({"required": list(rule.required)} if rule.required else {}),
                **({"default": {}} if rule.has_default else {}),
                "properties": {name: openapi(entry) for name, entry in rule.fields.items()},
            }


def bare(node: Any) -> Any:
    """An OpenAPI schema without descriptions and CEL."""
    if isinstance(node, dict):
        return {
            key: bare(value)
            for key, value in node.items()
            if key != VALIDATIONS and not (key == "description" and isinstance(value, str))
        }
    return node


def sentences(rule: schema.Rule, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, sentence) of everything that a rule says beyond OpenAPI."""
    match rule:
        case schema.Text() if rule.pattern:
            yield path, rule.advice
        case schema.Quantity():
            yield path, "write a quantity such as 4, 500m or 16Gi"
        case schema.ListOf():
            if rule.unique:
                yield path, rule.advice
            yield from sentences(rule.item, f"{path}[]")
        case schema.MapOf():
            for advice in filter(None, (rule.reserved_advice, rule.key_advice)):
                yield path, advice
            yield from sentences(rule.value, f"{path}{{}}")
        case schema.Object():
            for name, entry in rule.fields.items():
                yield from sentences(entry, f"{path}.{name}".lstrip("."))
        case schema.Text() | schema.Whole() | schema.Boolean():
            pass  # OpenAPI says all of it


def walk(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema below one, with its path."""
    yield path, node
    for name, entry in node.get("properties", {}).items():
        yield from walk(entry, f"{path}.{name}".lstrip("."))
    if "items" in node:
        yield from walk(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from walk(node["additionalProperties"], f"{path}{{}}")


def cel(node: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(path, expression, message) of every CEL rule below a schema."""
    return [(path, rule["rule"], rule["message"]) for path, here in walk(node) for rule in here.get(VALIDATIONS, ())]


def test_every_field_of_the_spec_has_the_same_type_range_and_default_on_both_sides() -> None:
    assert bare(SPEC) == openapi(spec_schema.SPEC)


def test_every_rule_beyond_openapi_has_the_same_sentence_at_the_same_place_on_both_sides() -> None:
    ours = {*sentences(spec_schema.SPEC), *((rule.path, rule.sentence) for rule in cross_field_rules.SPEC_RULES)}
    theirs = [(path, message) for path, _, message in cel(SPEC) if message not in {FROZEN, STAYS_CANCELLED}]
    assert sorted(theirs) == sorted(ours)


def test_patterns_are_the_same_on_both_sides() -> None:
    theirs = {path: expression for path, expression, _ in cel(SPEC) if expression.startswith("self.matches(")}
    ours = {path: rule for path, rule in text_rules(spec_schema.SPEC) if rule.pattern}
    quoted = {path: rule.pattern.replace("\\", "\\\\") for path, rule in ours.items()}
    assert theirs == {path: f"self.matches('{pattern}')" for path, pattern in quoted.items()}


def text_rules(rule: schema.Rule, path: str = "") -> Iterator[tuple[str, schema.Text]]:
    match rule:
        case schema.Text():
            yield path, rule
        case schema.ListOf():
            yield from text_rules(rule.item, f"{path}[]")
        case schema.MapOf():
            yield from text_rules(rule.value, f"{path}{{}}")
        case schema.Object():
            for name, entry in rule.fields.items():
                yield from text_rules(entry, f"{path}.{name}".lstrip("."))
        case schema.Whole() | schema.Boolean() | schema.Quantity():
            pass


def test_every_property_of_the_spec_is_frozen_but_for_what_may_change() -> None:
    frozen = {path for path, expression, message in cel(SPEC) if (expression, message) == ("self == oldSelf", FROZEN)}
    assert frozen == set(SPEC["properties"]) - MUTABLE


def test_properties_without_a_default_can_be_neither_added_nor_removed() -> None:
    [expression] = [expression for path, expression, message in cel(SPEC) if message == FROZEN and path == ""]
    optional = {name for name, entry in SPEC["properties"].items() if "default" not in entry} - {"suites"} - MUTABLE
    assert set(expression.split(" && ")) == {f"has(self.{name}) == has(oldSelf.{name})" for name in optional}


def test_the_name_has_the_same_rule_on_both_sides() -> None:
    [version] = CRDS["disttests"]["spec"]["versions"]
    [rule] = version["schema"]["openAPIV3Schema"][VALIDATIONS]
    assert rule["message"] == parse.NAME_ADVICE
    assert str(parse.NAME_LENGTH) in rule["rule"]
    assert f"'{schema.DNS_1035}'" in rule["rule"]


@pytest.mark.parametrize(
    ("node", "model"),
    [
        (SPEC, Spec),
        (SPEC["properties"]["suites"]["items"], Suite),
        (SPEC["properties"]["timeouts"], Timeouts),
        (SPEC["properties"]["retries"], Retries),
        (SPEC["properties"]["thresholds"]["items"], Threshold),
        (SPEC["properties"]["artifacts"], Artifacts),
        (SPEC["properties"]["quarantine"], Quarantine),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_has_a_field_for_each_of_the_spec(node: Mapping[str, Any], model: type) -> None:
    assert {snake(name) for name in node["properties"]} == {entry.name for entry in fields(model)}


def test_the_models_template_has_a_field_for_each_of_the_template() -> None:
    template = SPEC["properties"]["template"]["properties"]
    names = [*template["metadata"]["properties"], *template["spec"]["properties"]]
    assert {snake(name) for name in names} == {entry.name for entry in fields(Template)}


def test_defaults_of_the_crd_are_those_of_the_model() -> None:
    model = {entry.name: entry.default for entry in fields(Spec)}
    given = {snake(name): entry["default"] for name, entry in SPEC["properties"].items() if "default" in entry}
    assert given.pop("retries") == {}
    inner = SPEC["properties"]["retries"]["properties"]
    assert Retries(**{snake(key): entry["default"] for key, entry in inner.items()}) == Retries()
    assert given == {name: model[name] for name in given}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("name", CRDS)
def test_every_field_is_described_and_bounded(name: str) -> None:
    top = {"properties": {key: value for key, value in root(name).items() if key in {"spec", "status"}}}
    for path, node in walk(top):
        if not path or path.endswith("{}"):
            continue
        scalar_in_list = path.endswith("[]") and node["type"] != "object"
        assert scalar_in_list or node.get("description", "").endswith("."), f"{path} has no description"
        if node.get("type") == "string":
            assert "maxLength" in node, f"{path} has no maxLength"
        if node.get("type") == "array":
            assert "maxItems" in node, f"{path} has no maxItems"


def test_the_status_knows_every_phase_verdict_and_outcome() -> None:
    status = STATUS["properties"]
    assert status["phase"]["enum"] == list(Phase)
    assert status["verdict"]["enum"] == list(Verdict)
    assert set(status["cases"]["properties"]) == {"total", *Outcome, "flaky", "quarantined"}
    assert status["failures"]["items"]["properties"]["outcome"]["enum"] == list(Outcome)


def test_the_status_knows_every_collective_and_type_that_may_have_a_threshold() -> None:
    bandwidth = STATUS["properties"]["bandwidth"]
    row = bandwidth["items"]["properties"]
    assert (row["collective"]["enum"], row["dtype"]["enum"]) == (list(COLLECTIVES), list(DTYPES))
    assert bandwidth["maxItems"] == limits.BANDWIDTHS


def test_reasons_fit_into_the_status_and_the_totals_of_the_ledger() -> None:
    totals = root("disttestseries")["status"]["properties"]["totals"]["properties"]
    assert len(Reason) <= 40
    assert len(Verdict) * 40 <= totals["runs"]["maxItems"]
    assert max(map(len, Reason)) <= STATUS["properties"]["reason"]["maxLength"]


def test_the_ledger_has_room_for_what_is_listed() -> None:
    status = root("disttestseries")["status"]["properties"]
    lists = {name: status[name]["maxItems"] for name in ("failing", "flipping", "blamedNodes", "runs", "pending")}
    assert lists == {
        "failing": history.LISTED,
        "flipping": history.LISTED,
        "blamedNodes": history.LISTED_BLAMED,
        "runs": report_retention.RUNS,
        "pending": ledger.PENDING,
    }
    assert status["totals"]["properties"]["retries"]["maxItems"] == ledger.RETRIES
    assert status["flakyCases"]["maximum"] == history.LISTED
    failing, flipping = (status[name]["items"]["properties"] for name in ("failing", "flipping"))
    assert failing["outcomes"]["maxLength"] == flipping["outcomes"]["maxLength"] == history.WINDOW
    assert failing["message"]["maxLength"] == run_results.MESSAGE_BYTES
    assert set(failing["lastOutcome"]["enum"]) == BAD
    longest = limits.cut_id("x" * 2 * limits.CASE_ID_BYTES)
    assert len(longest) <= min(failing["case"]["maxLength"], flipping["case"]["maxLength"])
    blamed = status["blamedNodes"]["items"]["properties"]
    assert (blamed["name"]["maxLength"], blamed["reason"]["maxLength"]) == (history.NODE_BYTES, history.REASON_BYTES)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "disttests",
            "Series Verdict Phase Nodes GPUs Passed Failed Duration Age Reason Attempts Current Report",
        ),
        ("disttestseries", "Runs Last Verdict LastSuccess PassRate Streak Flaky Age"),
    ],
)
def test_printer_columns_show_fields_that_exist(name: str, wanted: str) -> None:
    [version] = CRDS[name]["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    assert " ".join(column["name"] for column in columns) == wanted
    known = {path for path, _ in walk({"properties": root(name)})} | {"metadata.creationTimestamp"}
    paths = [entry["jsonPath"] for entry in [*columns, *version.get("selectableFields", ())]]
    assert {path.removeprefix(".") for path in paths} <= known
