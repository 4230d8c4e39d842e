"""A DistTest that says something in every field, and how to change it.

What leaves PodSecurity `restricted` stands apart: GOOD is let in everywhere.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

REMOVE: Final = object()

GOOD: Final[Mapping[str, Any]] = {
    "apiVersion": "disttest.dev/v1alpha1",
    "kind": "DistTest",
    "metadata": {"name": "good"},
    "spec": {
        "series": "nightly-2x8",
        "suites": [
            {"name": "collectives", "builtin": "collectives", "env": [{"name": "COLLECTIVES_SIZES", "value": "1M"}]},
            {"name": "mine", "configMap": {"name": "tests"}, "select": "fast and not (slow or test_big[2])"},
            {"name": "c10d", "files": ["test/distributed/test_c10d_common.py", "test/**/test_*.py"]},
        ],
        "nodes": 2,
        "gpusPerNode": 8,
        "ranksPerNode": 8,
        "backend": "nccl",
        "transport": "any",
        "image": "example/disttest-runner:1.0",
        "gpuResource": "nvidia.com/gpu",
        "placement": "Spread",
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "EMPTY"}],
        "queueName": "gpu-nightly",
        "timeouts": {"queueSeconds": 1800, "rendezvousSeconds": 300, "caseSeconds": 300, "runSeconds": 7200},
        "retries": {"flaky": 2},
        "thresholds": [
            {"collective": "all_reduce", "sizeBytes": 1048576, "minBusBandwidthBytesPerSecond": 400000000},
            {
                "collective": "all_reduce",
                "sizeBytes": 1048576,
                "minBusBandwidthBytesPerSecond": 500000000,
                "dtype": "bfloat16",
            },
        ],
        "artifacts": {"persistentVolumeClaim": "disttest-artifacts"},
        "quarantine": {"configMap": {"name": "known-failures"}},
        "ttlSecondsAfterFinished": 604800,
        "template": {
            "metadata": {"labels": {"team": "torch"}, "annotations": {"example.com/why": "a driver was changed"}},
            "spec": {
                "nodeSelector": {"example.com/gpu": "h100"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "resources": {"limits": {"memory": "512Gi"}, "requests": {"cpu": 32, "memory": "256Gi"}},
                "priorityClassName": "nightly",
                "runtimeClassName": "nvidia",
                "schedulerName": "gang-scheduler",
                "serviceAccountName": "tests",
                "imagePullSecrets": [{"name": "registry"}],
            },
        },
    },
}

ON_ITS_NODE: Final[Mapping[str, Any]] = {
    "hostNetwork": True,
    "hostIPC": True,
    "hostPID": True,
    "securityContext": {"runAsUser": 0, "capabilities": {"add": ["IPC_LOCK", "SYS_NICE"]}},
    "volumes": [
        {"name": "infiniband", "hostPath": {"path": "/dev/infiniband", "type": "Directory"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ],
    "volumeMounts": [
        {"name": "infiniband", "mountPath": "/dev/infiniband", "readOnly": True},
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "scratch", "mountPath": "/scratch"},
    ],
}


def changed(change: Mapping[str, Any]) -> dict[str, Any]:
    """GOOD with some of its values changed, added or removed."""
    manifest = copy.deepcopy(dict(GOOD))
    for path, value in change.items():
        *way, last = path.split("/")
        here: Any = manifest
        for step in way:
            here = here[int(step)] if isinstance(here, list) else here[step]
        key: Any = int(last) if isinstance(here, list) else last
        if value is REMOVE:
            del here[key]
        else:
            here[key] = value
    return manifest
