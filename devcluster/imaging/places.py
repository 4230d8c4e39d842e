"""What lies where in the cache, and the lock that lets one process at a time touch it."""

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster import locks
from devcluster.build import Say


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
    return locks.held(places.root / "lock", "works on the images", say)


def empty(folder: Path) -> None:
    """Nothing is mounted below it: mounts are in namespaces that have ended."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
