"""Where things live that outlast a clone: the built programs, and the state of clusters by name."""

import os
import re
from pathlib import Path

from devcluster.errors import ClusterError

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?")


def root() -> Path:
    if own := os.environ.get("DISTTEST_CACHE"):
        return Path(own).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).resolve() / "disttest"


def kubedev() -> Path:
    return root() / "kubedev"


def images() -> Path:
    """Of `make images`, and their copy for containerd."""
    return root() / "images"


def clusters() -> Path:
    return root() / "clusters"


def cluster(name: str) -> Path:
    if not NAME.fullmatch(name):
        raise ClusterError(f"{name!r} cannot name a cluster: use up to 42 lower-case letters, digits, dots and dashes")
    return clusters() / name
