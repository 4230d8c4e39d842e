"""The programs of Kubernetes: built once from Go modules into the cache, or taken from KUBEBUILDER_ASSETS."""

import os
from collections.abc import Mapping
from pathlib import Path

from devcluster import cache, gobuild
from devcluster.errors import ClusterError
from devcluster.gobuild import Say
from devcluster.settings import PACKAGE, PROGRAMS, REAL_NODE_PROGRAMS

KUBERNETES_VERSION = "v1.36.3"
VERSION_VARIABLE = "k8s.io/component-base/version"
VERSIONS = {"gitVersion": KUBERNETES_VERSION, "gitMajor": "1", "gitMinor": "36"}
LINKER = " ".join(["-s -w", *(f"-X {VERSION_VARIABLE}.{name}={value}" for name, value in VERSIONS.items())])

__all__ = ["Say", "build", "programs"]


def programs(say: Say) -> Mapping[str, tuple[str, ...]]:
    """The command of each program, built first if need be."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return _from_assets(Path(assets))
    binary = str(build(say))
    return {name: (binary, name) for name in (*PROGRAMS, *REAL_NODE_PROGRAMS)}


def _from_assets(directory: Path) -> Mapping[str, tuple[str, ...]]:
    found = {name: directory / name for name in PROGRAMS}
    missing = [name for name, file in found.items() if not os.access(file, os.X_OK)]
    if missing:
        raise ClusterError(
            f"KUBEBUILDER_ASSETS={directory} lacks {', '.join(missing)}; put these programs there "
            "(the usual archives have no kube-controller-manager and kube-scheduler), or unset it to build all of them"
        )
    return {name: (str(file.absolute()),) for name, file in found.items()}


def build(say: Say) -> Path:
    """The binary that holds all programs."""
    kubernetes = gobuild.GoProgram(
        title=f"Kubernetes {KUBERNETES_VERSION}",
        source=PACKAGE / "kubedev",
        inputs=("main.go", "go.mod", "go.sum"),
        linker=LINKER,
        home=cache.kubedev(),
        name="kubedev",
        minutes=5,
        otherwise="set KUBEBUILDER_ASSETS to a directory that holds " + ", ".join(PROGRAMS),
    )
    return gobuild.build(kubernetes, say)
