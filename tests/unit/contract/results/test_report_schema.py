"""The published JSON Schema of reports, against what is written: neither may know a key that the other does not."""

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import resources
from typing import Any

import jsonschema
import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.case_result import RankEnding
from disttest_contract.results.network_transport import (
    GangTransport,
    NetworkTransport,
    TransportFacts,
    TransportGroup,
)
from disttest_contract.results.report import SCHEMA, InvalidReportError, LeftOut, Report
from tests.support.reports import report_cases
from tests.support.reports import report_samples as samples
from tests.support.reports.reports import OTHER_FACTS, a_good_night, a_night, a_report, a_suite, many

PATH = resources.files("disttest_contract").joinpath("report.schema.json")
SETTINGS = {"NCCL_DEBUG (things)": "TRACE"}
PUBLISHED: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """All schemas in a schema."""
    if isinstance(schema, dict):
        if "description" in schema or "type" in schema:
            yield schema
        for value in schema.values():
            yield from parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from parts(value)


def closed() -> jsonschema.Draft202012Validator:
    """As published, but that a key which it does not describe is refused."""
    schema = copy.deepcopy(PUBLISHED)
    for part in parts(schema):
        if "properties" in part:
            part["additionalProperties"] = False
    return jsonschema.Draft202012Validator(schema)


def full() -> Report:
    """Everything is set somewhere."""
    crashed = dataclasses.replace(report_cases.CRASHED, exit_code=3, at=1.0)
    hung = dataclasses.replace(report_cases.HUNG, quarantined=True, logs={1: "WARNING  mine:test_it.py:7 slow"})
    suite = a_suite("things", [*samples.EACH, crashed, hung])
    facts = dataclasses.replace(OTHER_FACTS, cuda_error="no CUDA", shares_gpus=True, busy_gpus=("GPU 3: 70.0 GiB",))
    left_out = LeftOut(by_outcome={Outcome.PASSED: 3, Outcome.FAILED: 2}, excused={Outcome.FAILED: 1}, flaky=1)
    suite = dataclasses.replace(suite, left_out=left_out)
    used = TransportFacts(
        transport=NetworkTransport.PLUGIN, network="FasTrak", plugin="1.0", connections=("NET",), gpu_direct_rdma=True
    )
    groups = (TransportGroup(ranks="0-3", used=used), TransportGroup(ranks="4-7", used=TransportFacts()))
    transport = GangTransport(used=used, groups=groups)
    return a_report(
        suite,
        at_fault=(1,),
        trimmed="stacks",
        attempt=2,
        preflight=(facts,),
        settings=SETTINGS,
        transport=transport,
    )


def default(field: "dataclasses.Field[Any]") -> Any:
    """MISSING where there is none; an empty mapping is like any other."""
    return {} if field.default_factory is not dataclasses.MISSING else field.default


def values(thing: Any) -> Iterator[Any]:
    """A dataclass and all those in it."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        yield thing
        for field in dataclasses.fields(thing):
            yield from values(getattr(thing, field.name))
    elif isinstance(thing, tuple):
        for one in thing:
            yield from values(one)


def written(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.dumps())
    return found


def keys(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Which described keys are there: (the schema that describes it, key)."""
    if "$ref" in schema:
        schema = PUBLISHED["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict):
        for key, one in value.items():
            if key in schema.get("properties", {}):
                yield id(schema), key
                yield from keys(one, schema["properties"][key])
    elif isinstance(value, list):
        for one in value:
            yield from keys(one, schema.get("items", {}))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    assert PUBLISHED["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_its_version_is_that_of_reports() -> None:
    assert PUBLISHED["properties"]["schema"]["const"] == SCHEMA
    assert PUBLISHED["$id"].endswith(f"/report-{SCHEMA}.json")


@pytest.mark.parametrize(
    "report",
    [
        full(),
        a_night(),
        a_good_night(),
        many(2000),
        samples.lost(),
        samples.nothing(),
        samples.trimmed(),
        *map(samples.generated, range(30)),
    ],
    ids=lambda report: report.verdict.value,
)
def test_every_report_is_as_it_says_and_holds_nothing_that_it_does_not_describe(report: Report) -> None:
    closed().validate(written(report))


def test_a_key_that_it_does_not_describe_would_be_found() -> None:
    """Of the check itself."""
    report = written(full())
    report["suites"][0]["cases"][0]["news"] = 1
    jsonschema.Draft202012Validator(PUBLISHED).validate(report)
    with pytest.raises(jsonschema.ValidationError, match="news"):
        closed().validate(report)


def test_the_full_report_is_full() -> None:
    """A field that is new in a dataclass has to be set in it, and by that comes into the schema."""
    set_somewhere: dict[type, set[str]] = {}
    for value in values(full()):
        known = {field.name for field in dataclasses.fields(value) if getattr(value, field.name) != default(field)}
        set_somewhere.setdefault(type(value), set()).update(known)
    assert len(set_somewhere) == 13, "kinds of dataclasses in a report"
    for kind, known in set_somewhere.items():
        assert {field.name for field in dataclasses.fields(kind)} == known, kind


def test_everything_that_it_describes_is_written() -> None:
    report = written(full())
    there = {*keys(report, PUBLISHED)}
    described = {(id(part), key) for part in parts(PUBLISHED) for key in part.get("properties", {})}
    names = {
        (id(part), key): part.get("description", "")[:40]
        for part in parts(PUBLISHED)
        for key in part.get("properties", {})
    }
    assert not {(names[one], one[1]) for one in described - there}


def test_it_allows_what_readers_have_to_ignore() -> None:
    assert all(part.get("additionalProperties") is not False for part in parts(PUBLISHED))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("$defs", "verdict", "enum"), Verdict),
        (("$defs", "outcome", "enum"), Outcome),
        (("$defs", "reason", "examples"), Reason),
        (("$defs", "rankGroup", "properties", "ending", "enum"), RankEnding),
    ],
    ids=["verdict", "outcome", "reason", "ending"],
)
def test_its_words_are_ours(path: tuple[str, ...], words: type[Enum]) -> None:
    found: Any = PUBLISHED
    for step in path:
        found = found[step]
    assert found == [word.value for word in words]


def test_every_field_has_a_description_and_numbers_have_units() -> None:
    for part in parts(PUBLISHED):
        for name, field in part.get("properties", {}).items():
            assert field.get("description") or "$ref" in field, name
            if "econds" in name or name == "at":
                assert "seconds" in field["description"].lower(), name
            if name.endswith(("Bytes", "BytesPerSecond")):
                assert "bytes" in field["description"].lower(), name


@pytest.mark.parametrize("key", PUBLISHED["required"])
def test_what_it_requires_readers_require_too(key: str) -> None:
    report = written(full())
    del report[key]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(PUBLISHED).validate(report)
    with pytest.raises(InvalidReportError):
        Report.loads(json.dumps(report).encode())
