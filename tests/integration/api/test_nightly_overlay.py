"""Changes to the example overlay that docs/operating/nightlies.md describes: they must arrive everywhere."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clusters.api import MANIFESTS
from tests.support.clusters.cluster import Manifest, SessionCluster

OVERLAY = MANIFESTS / "overlays/nightly"
DIGEST = "sha256:" + "0" * 64


def rendered(cluster: SessionCluster, folder: Path) -> list[Manifest]:
    return [*yaml.safe_load_all(cluster.kubectl("kustomize", str(folder)))]


def cron_jobs(objects: list[Manifest]) -> dict[str, dict[str, Any]]:
    return {entry["metadata"]["name"]: entry["spec"] for entry in objects if entry["kind"] == "CronJob"}


def pod_spec(cron_job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = cron_job["jobTemplate"]["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def example(cluster: SessionCluster) -> list[Manifest]:
    return rendered(cluster, OVERLAY)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The example as people begin with it: copied to where they keep theirs."""
    for file in OVERLAY.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    change(tmp_path, "../../nightly", os.path.relpath(MANIFESTS / "nightly", tmp_path))
    return tmp_path


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "kustomization.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_every_pod_has_the_image_by_digest(example: list[Manifest]) -> None:
    images = {container["image"] for spec in cron_jobs(example).values() for container in pod_spec(spec)["containers"]}
    assert images == {f"registry.example/disttest-operator@{DIGEST}"}


def test_the_time_zone_is_that_of_all_and_schedule_and_suspension_of_one(example: list[Manifest]) -> None:
    assert {
        name: (spec["timeZone"], spec["schedule"], spec["suspend"]) for name, spec in cron_jobs(example).items()
    } == {
        "nightly-1x8": ("Europe/Berlin", "0 1 * * *", False),
        "nightly-2x8": ("Europe/Berlin", "30 2 * * 1-5", False),
        "nightly-4x8": ("Europe/Berlin", "0 5 * * *", True),
    }


def test_each_series_mounts_its_own_file_whose_name_changes_with_its_content(example: list[Manifest]) -> None:
    maps = {entry["metadata"]["name"]: entry["data"] for entry in example if entry["kind"] == "ConfigMap"}
    for name, spec in cron_jobs(example).items():
        [volume] = pod_spec(spec)["volumes"]
        mounted = volume["configMap"]["name"]
        assert mounted.startswith(f"{name}-"), "with a hash"
        assert yaml.safe_load(maps[mounted]["disttest.yaml"])["spec"]["series"] == name


def test_a_replaced_file_makes_another_configmap(cluster: SessionCluster, example: list[Manifest], copy: Path) -> None:
    before = pod_spec(cron_jobs(example)["nightly-2x8"])["volumes"]
    file = copy / "nightly-2x8.yaml"
    file.write_text(file.read_text().replace("queueName: gpu-nightly", "queueName: other"))
    objects = rendered(cluster, copy)
    [volume] = pod_spec(cron_jobs(objects)["nightly-2x8"])["volumes"]
    assert [volume] != before
    [data] = [entry["data"] for entry in objects if entry["metadata"]["name"] == volume["configMap"]["name"]]
    assert yaml.safe_load(data["disttest.yaml"])["spec"]["queueName"] == "other"


def test_a_series_that_is_not_wanted_is_taken_out(cluster: SessionCluster, copy: Path) -> None:
    unwanted = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly-1x8"}}
    change(copy, "patches:\n", f"patches:\n  - patch: '{json.dumps({'$patch': 'delete', **unwanted})}'\n")
    assert set(cron_jobs(rendered(cluster, copy))) == {"nightly-2x8", "nightly-4x8"}


def test_another_namespace_arrives_everywhere(cluster: SessionCluster, copy: Path) -> None:
    change(copy, "namespace: disttest-nightly", "namespace: gpu-ci")
    for entry in rendered(cluster, copy):
        metadata = entry["metadata"]
        assert (metadata["name"] if entry["kind"] == "Namespace" else metadata["namespace"]) == "gpu-ci"
        assert {subject["namespace"] for subject in entry.get("subjects", ())} <= {"gpu-ci"}


def test_the_component_leaves_alone_what_else_is_in_the_overlay(cluster: SessionCluster, copy: Path) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "elsewhere"}}
    (copy / "namespace.yaml").write_text(yaml.safe_dump(other))
    change(copy, "namespace: disttest-nightly\n", "")
    [left] = [entry for entry in rendered(cluster, copy) if entry["metadata"]["name"] == "other"]
    assert left == other


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["as kubectl and Argo CD apply", "as Flux applies"])
def test_nothing_drifts(flags: tuple[str, ...], cluster: SessionCluster, copy: Path) -> None:
    """The API server adds defaults, but neither drops nor rewrites a field: no GitOps controller sees a difference."""
    with cluster.namespace() as namespace:
        change(copy, "namespace: disttest-nightly", f"namespace: {namespace}")
        change(copy, "resources:\n  - namespace.yaml\n", "")
        cluster.kubectl("apply", *flags, "-k", str(copy))
        assert cluster.kubectl("diff", *flags, "-k", str(copy), check=False) == ""
        objects = rendered(cluster, copy)
        assert {entry["kind"] for entry in objects} == {"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "CronJob"}
        for entry in objects:
            live = cluster.get(entry["kind"], entry["metadata"]["name"], namespace)
            assert differences(entry, live) == []


def differences(written: object, live: object, path: str = "") -> list[str]:
    """Where what is written is not stored in the same words."""
    if isinstance(written, dict) and isinstance(live, dict):
        return [found for key in written for found in differences(written[key], live.get(key), f"{path}.{key}")]
    if isinstance(written, list) and isinstance(live, list) and len(written) == len(live):
        pairs = zip(written, live, strict=True)
        return [found for place, pair in enumerate(pairs) for found in differences(*pair, f"{path}[{place}]")]
    return [] if written == live else [f"{path}: {written!r} is stored as {live!r}"]
