"""What the CRDs share with hand-written code: rules over several fields, the model's fields, limits, lists."""

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
from disttest_operator.core.api.model import (
    Artifacts,
    Backend,
    Concurrency,
    Phase,
    Placement,
    Quarantine,
    Retries,
    Spec,
    Suite,
    Timeouts,
)
from disttest_operator.core.api.template import Template
from disttest_operator.core.series import history, ledger, run_results
from tests.support.paths import ROOT

CRDS = {
    name: yaml.safe_load((ROOT / "manifests/crd" / f"{name}.yaml").read_text())
    for name in ("disttests", "disttestseries")
}
FROZEN = "field is immutable; create a new DistTest"
MUTABLE = {"ttlSecondsAfterFinished", "suspend", "cancel"}
VALIDATIONS = "x-kubernetes-validations"


def root(name: str) -> Mapping[str, Any]:
    [version] = CRDS[name]["spec"]["versions"]
    found: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return found


SPEC = root("disttests")["spec"]
STATUS = root("disttests")["status"]


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


def test_each_message_of_a_rule_over_several_fields_has_its_rule_in_python() -> None:
    assert {path: len(messages) for path, messages in spec_schema.MESSAGES.items()} == {
        path: len(rules) for path, rules in cross_field_rules.RULES.items()
    }


def test_messages_name_the_paths_and_volumes_that_are_reserved() -> None:
    [paths] = spec_schema.MESSAGES["template.spec.volumeMounts[].mountPath"]
    [volumes] = spec_schema.MESSAGES["template.spec.volumes[].name"]
    *others, last = cross_field_rules.TAKEN_PATHS
    assert paths.startswith(f"{', '.join(others)} and {last} are reserved")
    assert volumes.startswith(
        f"{', '.join(cross_field_rules.TAKEN_VOLUMES)} and names that begin with suite- are reserved"
    )


def test_the_spec_has_the_limits_and_choices_of_contract_and_model() -> None:
    fields_of_spec = SPEC["properties"]
    threshold = fields_of_spec["thresholds"]["items"]["properties"]
    assert [fields_of_spec[name]["maximum"] for name in ("nodes", "ranksPerNode")] == [
        limits.NODES,
        limits.RANKS_PER_NODE,
    ]
    assert [fields_of_spec[name]["maxItems"] for name in ("suites", "thresholds")] == [limits.SUITES, limits.THRESHOLDS]
    assert [threshold[name]["maximum"] for name in ("sizeBytes", "minBusBandwidthBytesPerSecond")] == [
        limits.SIZE_BYTES,
        limits.BUS_BANDWIDTH_BYTES_PER_SECOND,
    ]
    assert [threshold[name]["enum"] for name in ("collective", "dtype")] == [list(COLLECTIVES), list(DTYPES)]
    choices = {name: fields_of_spec[name]["enum"] for name in ("backend", "placement", "concurrencyPolicy")}
    assert choices == {"backend": [*Backend], "placement": [*Placement], "concurrencyPolicy": [*Concurrency]}


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
    assert rule["message"] == f"metadata.name {parse.NAME_ADVICE}"
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
    assert STATUS["properties"]["retries"]["maxItems"] == limits.REASONS <= totals["retries"]["maxItems"]
    assert len(Verdict) * limits.REASONS <= totals["runs"]["maxItems"]
    assert max(map(len, Reason)) <= STATUS["properties"]["reason"]["maxLength"]


def test_the_ledger_has_room_for_what_is_listed() -> None:
    status = root("disttestseries")["status"]["properties"]
    lists = {name: status[name]["maxItems"] for name in ("failing", "flipping", "suspectNodes", "runs", "pending")}
    assert lists == {
        "failing": history.LISTED,
        "flipping": history.LISTED,
        "suspectNodes": history.LISTED_BLAMED,
        "runs": ledger.RUNS,
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
    blamed = status["suspectNodes"]["items"]["properties"]
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
