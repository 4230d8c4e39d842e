"""What a machine must have for real nodes, and what interrupted runs left on it. One line for each, with the remedy."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from devcluster import cache
from devcluster.imaging import disk
from devcluster.lifecycle import Cluster
from devcluster.packages import PACKAGES
from devcluster.realnode import cgroups

WHOLE_RANGE = 4294967295  # user ids of a machine, as its first user namespace sees them
RUN_GIB = 4  # what two nodes and their pods write in a run, beyond the images
UNPACK_GIB = 10  # the images as containerd keeps them, 9 with torch 2.13


def reasons_why_not() -> list[str]:
    """Why this machine cannot have real nodes at all; empty if it can. Nothing of ours can repair these."""
    return list(_reasons())


def _reasons() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "real nodes need root: run as root, or with sudo"
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", str(WHOLE_RANGE)]:
        yield "real nodes need the machine's own user ids: run outside of a user namespace"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        yield f"real nodes need Debian or Ubuntu, for the packages {', '.join(PACKAGES)}"
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        yield "the kernel has no overlay file system: modprobe overlay"
    if missing := cgroups.missing_controllers():
        yield (
            f"no cgroup controllers {', '.join(missing)} below {cgroups.ROOT}: mount them (version 1: "
            "mount -t cgroup -o NAME NAME DIR), or run on the machine itself rather than in a container"
        )


def shortages(*, unpacks: bool = False) -> list[str]:
    """What must be repaired by hand before a run; `unpacks`: the images are not unpacked yet."""
    free = disk.free_bytes(cache.root())
    needed = RUN_GIB + (UNPACK_GIB if unpacks else 0)
    if free >= needed * disk.GIB:
        return []
    return [
        f"{free / disk.GIB:.1f} GiB are free in {cache.root()}, {needed} are needed: make room, or set DISTTEST_CACHE"
    ]


def leftovers() -> list[str]:
    """What clusters left that were ended without being asked (SIGKILL, power)."""
    running = _cgroups_in_use()
    return sorted(f"cgroup {name}" for name in cgroups.of_clusters() - running) + sorted(
        f"files in {state / 'nodes'}" for state in _states() if _is_left(state)
    )


def clean() -> list[str]:
    """Removes the leftovers; tells what was removed."""
    found = leftovers()
    for name in cgroups.of_clusters() - _cgroups_in_use():
        cgroups.remove(name)
    for state in _states():
        if _is_left(state):
            shutil.rmtree(state / "nodes")
    return found


def _states() -> list[Path]:
    folder = cache.clusters()
    return [state for state in folder.iterdir() if state.is_dir()] if folder.is_dir() else []


def _is_left(state: Path) -> bool:
    return any((state / "nodes").glob("real*")) and not Cluster(state).is_running()


def _cgroups_in_use() -> set[str]:
    """Where a process lives in one, its cluster runs, wherever that has its state."""
    return {name for name in cgroups.of_clusters() if cgroups.has_processes(name)}
