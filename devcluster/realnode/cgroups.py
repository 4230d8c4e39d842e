"""The cgroup of a cluster's real nodes, which does not vanish with the cluster's namespaces."""

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MARK = "devcluster-"
# What the kubelet needs of version 1; in version 2 they are files of one hierarchy.
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
INHERITED = ("cpuset.cpus", "cpuset.mems")  # empty in a new cgroup of version 1, and then nothing can join


def is_unified() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def missing_controllers() -> list[str]:
    if is_unified():
        known = (ROOT / "cgroup.controllers").read_text().split()
        return [name for name in ("cpu", "cpuset", "memory", "pids") if name not in known]
    return [name for name in CONTROLLERS if not (ROOT / name / "cgroup.procs").exists()]


def create(name: str) -> None:
    """Create it in every hierarchy, with the parents in its name."""
    for hierarchy in _hierarchies():
        folder = hierarchy
        for part in name.split("/"):
            folder /= part
            folder.mkdir(exist_ok=True)
            for file in INHERITED:
                if (folder / file).exists() and not (folder / file).read_text().strip():
                    (folder / file).write_text((folder.parent / file).read_text())


def remove(name: str) -> None:
    """Remove it with all below it. Raises OSError (busy) if it still has processes."""
    for hierarchy in _hierarchies():
        top = hierarchy / name
        if top.exists():
            below = sorted((path for path in top.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
            for folder in (*below, top):
                folder.rmdir()


def of_clusters() -> set[str]:
    return {folder.name for hierarchy in _hierarchies() for folder in hierarchy.glob(f"{MARK}*")}


def has_processes(name: str) -> bool:
    return any(
        file.read_text().strip() for hierarchy in _hierarchies() for file in (hierarchy / name).rglob("cgroup.procs")
    )


def _hierarchies() -> list[Path]:
    if is_unified():
        return [ROOT]
    return [folder for folder in ROOT.iterdir() if (folder / "cgroup.procs").exists()]
