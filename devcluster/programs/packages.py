"""Programs of Debian packages, unpacked into the cache: installed, some would start services or fight with Docker's.

They run with `environment()`, which names the unpacked programs and libraries first.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.machine import cache, processes
from devcluster.machine.settings import DevClusterError
from devcluster.programs.gobuild import Say

PACKAGES = ("buildah", "containerd", "containernetworking-plugins", "docker-registry", "mmdebstrap", "runc")
PROGRAM_FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")
COMPLETE = "complete"


def unpacked(say: Say, packages: Sequence[str] = PACKAGES, needed_by: str = "real nodes and images") -> Path:
    """Return the root file system of these packages, which the first call makes (50 MB of downloads)."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise DevClusterError(f"{needed_by} need Debian or Ubuntu, for the packages {', '.join(packages)}")
    place = home(packages)
    with cache.hold_lock(place.with_suffix(".lock"), "is unpacking these packages", say):
        if not is_complete(place):
            say(f"downloading and unpacking {', '.join(packages)} into {place}")
            shutil.rmtree(place, ignore_errors=True)
            _unpack(place, packages)
    return place


def home(packages: Sequence[str]) -> Path:
    """Return their directory, which depends on the distribution's release, since libraries differ."""
    key = hashlib.sha256("\0".join((*packages, _distribution())).encode()).hexdigest()[:16]
    return cache.root() / "packages" / key


def is_complete(place: Path) -> bool:
    return (place / COMPLETE).exists()


def environment(place: Path) -> Mapping[str, str]:
    """Return the environment for a process that uses these programs and their libraries."""
    libraries = [str(folder) for folder in (place / "usr/lib").glob("*-linux-gnu*")]
    return {
        **os.environ,
        "PATH": processes.search_path(*(place / folder for folder in PROGRAM_FOLDERS)),
        "LD_LIBRARY_PATH": os.pathsep.join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep),
    }


def _distribution() -> str:
    file = Path("/etc/os-release")
    return file.read_text() if file.exists() else ""


def _unpack(place: Path, packages: Sequence[str]) -> None:
    if os.geteuid() == 0:
        processes.output("apt-get", "update", "-q")
    # Only what this machine lacks: the rest of the libraries are the machine's own.
    simulated = processes.output("apt-get", "install", "--simulate", "--no-install-recommends", *packages)
    wanted = {line.split()[1] for line in simulated.splitlines() if line.startswith("Inst ")} | set(packages)
    with tempfile.TemporaryDirectory(dir=place.parent) as downloads:
        processes.output("apt-get", "download", "-q", *sorted(wanted), directory=downloads)
        for archive in Path(downloads).glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", archive, place], check=True)
    (place / COMPLETE).touch()
