"""manifests/nightly in an overlay, as users have it, small enough for a cluster without GPUs."""

import json
import os
from pathlib import Path
from typing import Any

from tests.support import patience
from tests.support.clusters.api import MANIFESTS
from tests.support.clusters.cluster import OPERATOR_IMAGE, Manifest
from tests.support.operators import operator

SERIES = ("nightly-1x8", "nightly-2x8", "nightly-4x8")


def disttest(series: str, **spec: Any) -> Manifest:
    """One pod with two ranks."""
    return {
        "apiVersion": "disttest.dev/v1alpha1",
        "kind": "DistTest",
        "metadata": {"generateName": f"{series}-"},
        "spec": {
            "series": series,
            "suites": [{"name": "collectives", "select": "broadcast and float32"}],
            "gpusPerNode": 0,
            "timeouts": {name: patience.whole(seconds) for name, seconds in operator.TIMEOUTS.items()},
            "retries": {"infrastructure": 0},
            **spec,
        },
    }


def write_overlay(
    folder: Path,
    namespace: str,
    tests: dict[str, Manifest],
    *,
    manifests: Path = MANIFESTS,
    image: str = OPERATOR_IMAGE,
    reads: tuple[str, ...] = (),
) -> Path:
    """Every minute, suspended until a test wants a night; `tests` take the place of the component's.

    `reads` are ConfigMaps that these name: who starts a run must be allowed to get them.
    """
    name, _, tag = image.partition(":")
    often = [
        {"op": "replace", "path": "/spec/schedule", "value": "* * * * *"},
        {"op": "replace", "path": "/spec/suspend", "value": True},
    ]
    patches: list[Manifest] = [{"target": {"kind": "CronJob"}, "patch": json.dumps(often)}]
    if reads:
        right = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": list(reads), "verbs": ["get"]}
        added = [{"op": "add", "path": "/rules/-", "value": right}]
        patches.append({"target": {"kind": "Role", "name": "disttest-nightly"}, "patch": json.dumps(added)})
    for series, test in tests.items():
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": series}}
        patches.append({"patch": json.dumps({**body, "data": {"disttest.yaml": json.dumps(test)}})})
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "components": [os.path.relpath(manifests / "nightly", folder)],
        "images": [{"name": "disttest-operator", "newName": name, "newTag": tag}],
        "patches": patches,
    }
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))
    return folder
