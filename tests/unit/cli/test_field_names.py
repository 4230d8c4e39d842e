"""The command line reads fields of objects by name: a name that no schema has would read as missing."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.paths import ROOT

CAMEL_CASE = re.compile(r"[a-z]+([A-Z][a-z]*)+")
OF_KUBERNETES = {
    *("binaryData", "containerStatuses", "creationTimestamp", "generateName", "gitVersion", "holderIdentity"),
    *("preferredVersion", "readyReplicas", "renewTime", "resourceVersion"),
}
OTHER_FORMATS = {"credentials.py", "ctrf.py"}  # of a kubeconfig, of CTRF


def properties(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from properties(part)


def keys(source: str) -> Iterator[str]:
    """The constants in `x.get("key")` and `x["key"]`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]):
                yield key
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                yield key
            case _:
                pass


def test_every_field_that_is_read_is_in_a_schema() -> None:
    crds = [yaml.safe_load(file.read_text()) for file in (ROOT / "manifests/crd").glob("disttest*.yaml")]
    report = json.loads((ROOT / "runner/disttest_contract/report.schema.json").read_text())
    known = {*properties([*crds, report]), *OF_KUBERNETES}
    read = {
        (file.name, key)
        for file in (ROOT / "cli").rglob("*.py")
        if file.name not in OTHER_FORMATS
        for key in keys(file.read_text())
        if CAMEL_CASE.fullmatch(key)
    }
    assert ("description.py", "suspectNodes") in read
    assert {(file, key) for file, key in read if key not in known} == set()
