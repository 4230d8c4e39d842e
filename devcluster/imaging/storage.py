"""Folders of the images in the cache, their lock, and the disk space that they need."""

import contextlib
import shutil
from pathlib import Path

from devcluster.machine import cache
from devcluster.programs.gobuild import Say


class Places:
    """Folders and files below `root`, which holds the images in the cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.storage = root / "storage"  # images and layers in buildah's format
        self.run = root / "run"  # buildah's records of its mounts
        self.temporary = root / "tmp"  # unfinished layers: gigabytes, so not in /tmp
        self.settings = root / "settings"
        self.containers = root / "containers"  # mounted as /var/lib/containers: which registry has which layer
        self.var_lib = root / "var-lib"  # a mount point, empty outside of our namespaces
        self.registry = root / "registry"  # the storage of a registry with the built images
        self.unpacked = root / "containerd"  # the same images in containerd's format, for real nodes
        self.result = root / "images.json"  # written last: digest, bytes and layers of the registry's images by name


def locked(places: Places, say: Say) -> contextlib.AbstractContextManager[int]:
    """Yield the descriptor of the lock, which started processes inherit."""
    return cache.hold_lock(places.root / "lock", "works on the images", say)


def empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


GIB = 1 << 30
# Measured with torch 2.13: 9 stay (layers, and compressed ones in the registry), 14 at most while a layer is made.
FIRST_GIB = 16
LATER_GIB = 2


def shortage(free_bytes: int, folder: Path, *, is_first: bool) -> str:
    """Return one line with the remedy; empty if there is enough space."""
    needed = FIRST_GIB if is_first else LATER_GIB
    if free_bytes >= needed * GIB:
        return ""
    build = "the first build of the images" if is_first else "a build of the images"
    return (
        f"{build} needs {needed} GiB in {folder}, {free_bytes / GIB:.1f} GiB are free: "
        "free disk space, or set DISTTEST_CACHE to another directory"
    )


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next(place for place in (folder, *folder.parents) if place.exists())
