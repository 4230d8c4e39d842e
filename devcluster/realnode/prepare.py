"""What real nodes need before a cluster starts: programs, images, a cgroup's name."""

import hashlib
import json
from pathlib import Path

from devcluster import cache, packages
from devcluster.build import Say
from devcluster.errors import ClusterError
from devcluster.realnode import cgroups, needs, store
from devcluster.settings import RealNodes

IMAGES_FILE = "images.json"  # name -> digest and more, of what `make images` made


def real_nodes(count: int, state: Path, say: Say) -> RealNodes:
    """For a cluster with this state directory; raises ClusterError with all that is missing."""
    images = cache.images()
    unpacked = images / "containerd"
    if problems := [*needs.reasons_why_not(), *needs.shortages(unpacks=not unpacked.exists())]:
        raise ClusterError("; ".join(problems))
    made = images / IMAGES_FILE
    if not made.exists():
        raise ClusterError("there are no images yet; make them with: make images")
    digests = {name: image["digest"] for name, image in json.loads(made.read_text()).items()}
    programs = packages.unpacked(say)
    if (device := _device(state)) != _device(images):
        raise ClusterError(f"{state} and {images} must be on one file system, since nodes link to images: {device}")
    store.update(unpacked, images / "registry", digests, programs=programs, say=say)
    return RealNodes(
        count=count,
        programs=str(programs),
        store=str(unpacked),
        registry=str(images / "registry"),
        cgroup=f"{cgroups.MARK}{hashlib.sha256(str(state).encode()).hexdigest()[:8]}",
    )


def _device(path: Path) -> int:
    return next(folder for folder in (path, *path.parents) if folder.exists()).stat().st_dev
