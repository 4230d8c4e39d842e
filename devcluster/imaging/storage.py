"""What lies where in the cache, and the lock that lets one process at a time touch it."""

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine import cache
from devcluster.programs.kubernetes import Say


@dataclass(frozen=True, slots=True)
class Places:
    root: Path
    """Of images, in the cache."""

    @property
    def storage(self) -> Path:
        """Images and layers, as buildah keeps them."""
        return self.root / "storage"

    @property
    def run(self) -> Path:
        """What buildah knows about its mounts, which end with the process that made them."""
        return self.root / "run"

    @property
    def temporary(self) -> Path:
        """Layers in the making: gigabytes, so not /tmp."""
        return self.root / "tmp"

    @property
    def settings(self) -> Path:
        return self.root / "settings"

    @property
    def containers(self) -> Path:
        """Stands in for /var/lib/containers, where buildah remembers which registry has which layer."""
        return self.root / "containers"

    @property
    def var_lib(self) -> Path:
        """A mount point, empty outside of our namespaces."""
        return self.root / "var-lib"

    @property
    def registry(self) -> Path:
        """The storage of a registry that holds what was made."""
        return self.root / "registry"

    @property
    def unpacked(self) -> Path:
        """The same images as containerd keeps them, for real nodes."""
        return self.root / "containerd"

    @property
    def result(self) -> Path:
        """Name -> digest, bytes and layers of what the registry holds. Written last."""
        return self.root / "images.json"


def locked(places: Places, say: Say) -> contextlib.AbstractContextManager[int]:
    """The descriptor is for every process that is started meanwhile."""
    return cache.hold_lock(places.root / "lock", "works on the images", say)


def empty(folder: Path) -> None:
    """Nothing is mounted below it: mounts are in namespaces that have ended."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


GIB = 1 << 30
# Measured with torch 2.13: 9 stay (layers, and compressed ones in the registry), 14 at most while a layer is made.
FIRST_GIB = 16
LATER_GIB = 2


def shortage(free_bytes: int, folder: Path, *, is_first: bool) -> str:
    """One line with the remedy; empty if there is room."""
    needed = FIRST_GIB if is_first else LATER_GIB
    if free_bytes >= needed * GIB:
        return ""
    build = "the first build of the images" if is_first else "a build of the images"
    return (
        f"{build} needs {needed} GiB in {folder}, {free_bytes / GIB:.1f} GiB are free: "
        "make room, or name another place as DISTTEST_CACHE"
    )


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """It, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.exists())
