"""What is created from a file: its name, its namespace, by what it is known again, and how long it may take."""

from typing import Any

import pytest
import yaml

from disttest_cli.errors import UsageError
from disttest_cli.input import applying
from disttest_cli.input.applying import ANNOTATION_SHA256, Order

SPEC: dict[str, Any] = {"suites": [{"name": "collectives"}], "nodes": 2}
MANIFEST = {
    "apiVersion": "disttest.dev/v1alpha1",
    "kind": "DistTest",
    "metadata": {"generateName": "nightly-"},
    "spec": SPEC,
}


def an_order(metadata: dict[str, Any] | None = None, **options: Any) -> Order:
    manifest = {**MANIFEST, "metadata": metadata or MANIFEST["metadata"]}
    return applying.order(manifest, **{"name": None, "namespace": "", "default_namespace": "mine", **options})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must contain exactly one DistTest"),
        ("{}", "must contain exactly one DistTest"),
        ("- a", "must contain exactly one DistTest"),
        ("kind: DistTest\n---\nkind: DistTest", "must contain exactly one DistTest"),
        ("kind: DistTest\nmetadata: {name: a}\n---\nkind: ConfigMap", "must contain exactly one DistTest"),
        ("kind: DistTest", "has no name. Set metadata.name or metadata.generateName"),
        ("kind: DistTest\nmetadata: {namespace: a}", "has no name"),
        ("kind: DistTest\nmetadata: {name: a, annotations: [b]}", "annotations must be a mapping"),
    ],
    ids=repr,
)
def test_a_file_without_one_disttest_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        applying.read(list(yaml.safe_load_all(text)), "f.yaml")
    assert str(caught.value).startswith("f.yaml")
    assert "\n" not in str(caught.value)


def test_empty_documents_are_passed_over() -> None:
    assert applying.read([None, MANIFEST, None], "f.yaml") == MANIFEST


def test_the_api_server_names_it_unless_a_name_is_given() -> None:
    assert an_order().name == ""
    assert an_order().manifest["metadata"]["generateName"] == "nightly-"
    assert an_order({"name": "a"}).name == "a"


def test_a_name_takes_the_place_of_what_the_file_says() -> None:
    made = an_order({"generateName": "nightly-", "labels": {"a": "b"}}, name="nightly-29735640")
    assert made.name == "nightly-29735640"
    metadata = {"name": "nightly-29735640", "namespace": "mine", "labels": {"a": "b"}}
    assert made.manifest["metadata"] == metadata | {"annotations": {ANNOTATION_SHA256: made.sha256}}


@pytest.mark.parametrize("name", ["", "a" * 53, "1x8", "Nightly", "a.b", "a-", "$(JOB_NAME)", "a\n"])
def test_a_name_that_no_run_can_have_is_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(UsageError, match="at most 52 lower-case letters, digits and '-', begin with a letter"):
        an_order(name=name)


def test_the_longest_name_is_taken() -> None:
    assert an_order(name="a" * 52).name == "a" * 52


@pytest.mark.parametrize(
    ("written", "asked_for", "is_in"),
    [("", "", "mine"), ("file", "", "file"), ("", "option", "option"), ("same", "same", "same")],
)
def test_the_namespace_is_that_of_the_file_the_option_or_the_account(written: str, asked_for: str, is_in: str) -> None:
    made = an_order({"name": "a", "namespace": written} if written else {"name": "a"}, namespace=asked_for)
    assert (made.namespace, made.manifest["metadata"]["namespace"]) == (is_in, is_in)


def test_two_namespaces_contradict_each_other() -> None:
    with pytest.raises(UsageError, match="'file', but --namespace is 'option'"):
        an_order({"name": "a", "namespace": "file"}, namespace="option")


def test_the_file_itself_is_not_changed() -> None:
    before = yaml.safe_dump(MANIFEST)
    an_order(name="a", namespace="b")
    assert yaml.safe_dump(MANIFEST) == before


def test_what_was_created_from_the_same_spec_is_known_again_whatever_became_of_it() -> None:
    made = an_order(name="a")
    defaulted = {"metadata": made.manifest["metadata"], "spec": {**SPEC, "retries": {"flaky": 1}, "suspend": True}}
    assert applying.is_of(made, defaulted)


def test_the_order_of_keys_makes_no_difference() -> None:
    assert applying.digest({"a": 1, "b": 2}) == applying.digest({"b": 2, "a": 1})


@pytest.mark.parametrize(
    "metadata",
    [{"name": "a"}, {"name": "a", "annotations": None}, {"name": "a", "annotations": {ANNOTATION_SHA256: "0"}}],
    ids=repr,
)
def test_what_somebody_else_created_or_from_another_spec_is_not_taken_for_ours(metadata: dict[str, Any]) -> None:
    assert not applying.is_of(an_order(name="a"), {"metadata": metadata, "spec": SPEC})


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 2 * (1800 + 300 + 180) + 7200 + 60),
        ({"retries": {"infrastructure": 0}}, 1800 + 300 + 180 + 7200),
        (
            {
                "retries": {"infrastructure": 2},
                "timeouts": {"queueSeconds": 10, "rendezvousSeconds": 20, "caseSeconds": 5, "runSeconds": 100},
            },
            3 * (10 + 20 + 180) + 100 + 2 * 60,
        ),
        ({"timeouts": {"caseSeconds": 10_000}}, 2 * (1800 + 300 + 180) + 10_000 + 60),
    ],
    ids=["defaults", "one attempt", "three attempts", "a run as long as its longest case"],
)
def test_a_run_may_take_what_its_timeouts_add_up_to(spec: dict[str, Any], seconds: int) -> None:
    assert applying.budget_seconds(spec) == seconds
