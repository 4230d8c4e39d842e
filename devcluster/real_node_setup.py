"""What real nodes need before a cluster starts: programs, images, a cgroup's name."""

import hashlib
import json
import os
import shutil
from pathlib import Path

from devcluster.controlplane.lifecycle import DevCluster
from devcluster.imaging import storage
from devcluster.imaging.storage import Places
from devcluster.machine import cache
from devcluster.machine.settings import DevClusterError, RealNodes
from devcluster.programs import packages
from devcluster.programs.gobuild import Say
from devcluster.programs.packages import PACKAGES
from devcluster.realnode import cgroups, containerd_store

WHOLE_RANGE = 4294967295  # user ids of a machine, as its first user namespace sees them
RUN_GIB = 4  # what two nodes and their pods write in a run, beyond the images
UNPACK_GIB = 10  # the images as containerd keeps them, 9 with torch 2.13


def reasons_why_not() -> list[str]:
    """List why this machine cannot have real nodes; these problems have to be fixed by hand."""
    found = []
    if os.geteuid() != 0:
        found.append("real nodes need root: run as root, or with sudo")
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", str(WHOLE_RANGE)]:
        found.append("real nodes need the machine's own user ids: run outside of a user namespace")
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        found.append(f"real nodes need Debian or Ubuntu, for the packages {', '.join(PACKAGES)}")
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        found.append("the kernel has no overlay file system: modprobe overlay")
    if missing := cgroups.missing_controllers():
        found.append(
            f"no cgroup controllers {', '.join(missing)} below {cgroups.ROOT}: mount them (version 1: "
            "mount -t cgroup -o NAME NAME DIR), or run on the machine itself rather than in a container"
        )
    return found


def shortages(*, unpacks: bool = False) -> list[str]:
    """List what has to be fixed by hand before a run; `unpacks`: the images are not unpacked yet."""
    free = storage.free_bytes(cache.root())
    needed = RUN_GIB + (UNPACK_GIB if unpacks else 0)
    if free >= needed * storage.GIB:
        return []
    room = f"{free / storage.GIB:.1f} GiB are free in {cache.root()}, {needed} are needed"
    return [f"{room}: free disk space, or set DISTTEST_CACHE"]


def leftovers() -> list[str]:
    """List what clusters left that were killed."""
    cgroup_names = [f"cgroup {name}" for name in _left_cgroups()]
    return cgroup_names + [f"files in {folder}" for folder in _left_folders()]


def clean() -> list[str]:
    """Remove the leftovers and list them."""
    found = leftovers()
    for name in _left_cgroups():
        cgroups.remove(name)
    for folder in _left_folders():
        shutil.rmtree(folder)
    return found


def _left_cgroups() -> list[str]:
    """A cgroup with processes is that of a running cluster, wherever its state is."""
    return sorted(name for name in cgroups.of_clusters() if not cgroups.has_processes(name))


def _left_folders() -> list[Path]:
    folders = (folder for folder in cache.clusters().glob("*/nodes") if any(folder.glob("real*")))
    return sorted(folder for folder in folders if not DevCluster(folder.parent).is_running())


def real_nodes(count: int, state: Path, say: Say) -> RealNodes:
    """Prepare real nodes for a cluster with this state directory; raise DevClusterError with all that is missing."""
    where = Places(cache.images())
    if problems := [*reasons_why_not(), *shortages(unpacks=not containerd_store.is_complete(where.unpacked))]:
        raise DevClusterError("; ".join(problems))
    if not where.result.exists():
        raise DevClusterError("there are no images yet; build them with: make images")
    digests = {name: image["digest"] for name, image in json.loads(where.result.read_text()).items()}
    programs = packages.unpacked(say)
    if storage.existing(state).stat().st_dev != storage.existing(where.root).stat().st_dev:
        raise DevClusterError(f"{state} and {where.root} must be on one file system, since nodes link to images")
    containerd_store.update(where.unpacked, where.registry, digests, programs=programs, say=say)
    return RealNodes(
        count=count,
        programs=str(programs),
        store=str(where.unpacked),
        registry=str(where.registry),
        cgroup=f"{cgroups.MARK}{hashlib.sha256(str(state).encode()).hexdigest()[:8]}",
    )
