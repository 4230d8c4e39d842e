"""Every YAML block of a page is what the program that reads it accepts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_contract.gang import quarantine
from disttest_operator.core.api import schema
from disttest_operator.core.api.spec_schema import SPEC
from disttest_operator.core.hardware import user_rules
from tests.support.paths import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
KUSTOMIZATION = {"apiVersion", "kind", "resources", "images", "patches", "configMapGenerator"}
# First keys of blocks that other tests read, or that programs read which are not there.
OTHERS = {
    "route": "Alertmanager: tests/unit/tools/dashboards/test_rules.py",
    "tlsConfig": "a part of a ServiceMonitor",
    "distributed-tests": "GitLab; its commands are examples of test_examples.py",
}


def blocks() -> Iterator[Any]:
    for page in PAGES:
        for indent, block in BLOCK.findall(page.read_text()):
            text = re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
            yield pytest.param(page, text, id=f"{page.stem}: {text.splitlines()[0][:30]}")


each = pytest.mark.parametrize(("page", "text"), tuple(blocks()))


@each
def test_a_block_is_accepted(page: Path, text: str) -> None:
    found = yaml.safe_load(text)
    match found:
        case {"kind": "DistTest"}:
            assert not [*schema.check(SPEC, found["spec"], "spec")]
        case {"kind": "ConfigMap", "data": data}:
            assert set(quarantine.read(found, data)) == set(data)
        case {"kind": "Certificate", "spec": {"secretName": name}}:
            deployment = (ROOT / "manifests/operator/deployment.yaml").read_text()
            assert f"secretName: {name}," in deployment
        case {**keys} if keys.keys() <= KUSTOMIZATION:
            check_kustomization(found)
        case {**keys} if keys.keys() <= SPEC.fields.keys():
            for name, rule in SPEC.fields.items():
                assert name not in keys or not [*schema.check(rule, schema.normalise(keys[name]), name)]
        case [{"reason": _}, *_]:
            assert len(user_rules.build(found)) == len(found)
        case [{"name": _}, *_]:
            assert all("run" in step or "uses" in step for step in found), "GitHub"
        case _:
            assert next(iter(found)) in OTHERS, f"{page.name}: a block of this kind is checked by no program"


def check_kustomization(found: dict[str, Any]) -> None:
    """tests/integration/api/test_documented_kustomizations.py renders it."""
    for name in found.get("resources", ()):
        assert (ROOT / name.removeprefix("../disttest/")).is_dir(), name
    for patch in found["patches"]:
        assert {operation["op"] for operation in yaml.safe_load(patch["patch"])} <= {"add", "replace", "remove"}
