"""The kustomizations of the documentation render, as if they were next to a clone."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_operator.config.flags import FLAGS
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.paths import ROOT

BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
HEAD = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
OF_THE_CONTAINER = {"rules", "metrics-certificates"}  # files that are not on this machine


def kustomizations() -> Iterator[Any]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for number, (_, block) in enumerate(BLOCK.findall(page.read_text())):
            found = yaml.safe_load(block)
            if isinstance(found, dict) and "patches" in found:
                yield pytest.param(found, id=f"{page.stem}-{number}")


@pytest.mark.parametrize("found", tuple(kustomizations()))
def test_a_kustomization_of_a_page_renders_an_operator_with_flags_that_it_accepts(
    found: dict[str, Any], cluster: SessionCluster, tmp_path: Path
) -> None:
    folders = [name.removeprefix("../disttest/") for name in found.get("resources", ["manifests/base"])]
    resources = [os.path.relpath(ROOT / folder, tmp_path) for folder in folders]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({**HEAD, **found, "resources": resources}))
    (tmp_path / "rules.yaml").write_text("- {logPattern: a, reason: NodeUnhealthy}\n")
    objects = [*yaml.safe_load_all(cluster.kubectl("kustomize", str(tmp_path)))]
    [deployment] = [entry for entry in objects if entry["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    check_flags(container["args"])
    check_volumes(deployment, objects)


def check_flags(arguments: list[str]) -> None:
    flags = {flag.name: flag for flag in FLAGS}
    given = [argument.removeprefix("--").partition("=") for argument in arguments]
    names = [name for name, _, _ in given]
    assert len(set(names)) == len(names)
    for name, _, value in given:
        if name not in OF_THE_CONTAINER:
            flags[name].read(value or "true", name)


def check_volumes(deployment: Manifest, objects: list[Manifest]) -> None:
    """The generated name of a ConfigMap arrives in the Deployment."""
    names = {entry["metadata"]["name"] for entry in objects if entry["kind"] == "ConfigMap"}
    mounted = [
        volume["configMap"]["name"]
        for volume in deployment["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    ]
    assert set(mounted) <= names
