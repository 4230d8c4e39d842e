"""What real nodes need before a cluster starts: programs, images, a cgroup's name."""

import hashlib
import json
from pathlib import Path

from devcluster import cache, packages
from devcluster.build import Say
from devcluster.errors import ClusterError
from devcluster.imaging import disk
from devcluster.imaging.places import Places
from devcluster.realnode import cgroups, needs, store
from devcluster.settings import RealNodes


def real_nodes(count: int, state: Path, say: Say) -> RealNodes:
    """For a cluster with this state directory; raises ClusterError with all that is missing."""
    where = Places(cache.images())
    if problems := [*needs.reasons_why_not(), *needs.shortages(unpacks=not store.is_complete(where.unpacked))]:
        raise ClusterError("; ".join(problems))
    if not where.result.exists():
        raise ClusterError("there are no images yet; make them with: make images")
    digests = {name: image["digest"] for name, image in json.loads(where.result.read_text()).items()}
    programs = packages.unpacked(say)
    if disk.existing(state).stat().st_dev != disk.existing(where.root).stat().st_dev:
        raise ClusterError(f"{state} and {where.root} must be on one file system, since nodes link to images")
    store.update(where.unpacked, where.registry, digests, programs=programs, say=say)
    return RealNodes(
        count=count,
        programs=str(programs),
        store=str(where.unpacked),
        registry=str(where.registry),
        cgroup=f"{cgroups.MARK}{hashlib.sha256(str(state).encode()).hexdigest()[:8]}",
    )
