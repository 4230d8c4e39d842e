"""The volumes of a pod, and where they are in the container that runs the tests."""

from collections.abc import Mapping
from typing import Any

from disttest_operator.core import injection, naming
from disttest_operator.core.model import DistTest, Manifest

ARTIFACTS = "artifacts"  # the volume's name
TEMPORARY = "/tmp"  # noqa: S108  # a path inside the container, on a volume of the pod's own


def volumes(test: DistTest) -> list[Manifest]:
    claim = test.spec.artifacts.persistent_volume_claim
    return [
        {"name": "tmp", "emptyDir": {}},
        {"name": "dshm", "emptyDir": {"medium": "Memory"}},  # the default of 64 MiB breaks NCCL and data loaders
        *injection.volumes(test),
        *(
            {"name": _suite_volume(index), "configMap": {"name": suite.config_map}}
            for index, suite in enumerate(test.spec.suites)
            if suite.config_map
        ),
        *([{"name": ARTIFACTS, "persistentVolumeClaim": {"claimName": claim}}] if claim else []),
        *(dict(volume) for volume in test.spec.template.volumes),
    ]


def mounts(test: DistTest) -> list[Manifest]:
    return [
        {"name": "tmp", "mountPath": TEMPORARY},
        {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108  # a path inside the container
        *injection.mounts(test),
        *(
            {"name": _suite_volume(index), "mountPath": naming.suite_directory(suite.name), "readOnly": True}
            for index, suite in enumerate(test.spec.suites)
            if suite.config_map
        ),
        *(
            [{"name": ARTIFACTS, "mountPath": naming.ARTIFACTS_DIRECTORY}]
            if test.spec.artifacts.persistent_volume_claim
            else []
        ),
        *_asked(test),
    ]


def _asked(test: DistTest) -> list[Manifest]:
    on_nodes = {volume["name"] for volume in test.spec.template.volumes if "hostPath" in volume}
    return [
        _read_only(mount) if mount["name"] in on_nodes else dict(mount) for mount in test.spec.template.volume_mounts
    ]


def _read_only(mount: Mapping[str, Any]) -> Manifest:
    """What is mounted below it too, where the node's runtime can: a plain readOnly leaves that writable."""
    return {**mount, "readOnly": True, "recursiveReadOnly": "IfPossible"}


def _suite_volume(index: int) -> str:
    return f"suite-{index}"
