"""The programs of Kubernetes: of KUBEBUILDER_ASSETS, or built once from Go modules into the cache; see `programs`."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from devcluster.machine import cache
from devcluster.machine.settings import PACKAGE, PROGRAMS, REAL_NODE_PROGRAMS, DevClusterError
from devcluster.programs import gobuild
from devcluster.programs.gobuild import Say

KUBERNETES_VERSION = "v1.36.3"
OLDEST = (1, 31)  # of the servers: what DistTests need
ASSETS = "KUBEBUILDER_ASSETS"
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
VERSION = re.compile(r"Kubernetes v(\d+)\.(\d+)\.")
VERSION_SECONDS = 20
VERSION_VARIABLE = "k8s.io/component-base/version"
VERSIONS = {"gitVersion": KUBERNETES_VERSION, "gitMajor": "1", "gitMinor": "36"}
LINKER = " ".join(["-s -w", *(f"-X {VERSION_VARIABLE}.{name}={value}" for name, value in VERSIONS.items())])
Commands = Mapping[str, tuple[str, ...]]


def programs(say: Say, *, on_path: bool = False) -> Commands:
    """Return the command of each program: from KUBEBUILDER_ASSETS, the cache, PATH if `on_path`, else built now.

    All are taken from one place: servers of two versions are not supported by Kubernetes, and one that is missing
    costs as much to build as all of them.
    """
    if assets := os.environ.get(ASSETS):
        found, problem = _found(assets)
        if not problem:
            return found
        say(f"{ASSETS}={assets} is not used, since it {problem}. All programs are built, or taken from the cache")
    if binary := gobuild.cached(_kubernetes()):
        return _of(binary)
    if on_path:
        found, problem = _found(os.environ.get("PATH", ""))
        if not problem:
            say(f"Kubernetes is not built, since PATH has all of it: {', '.join(found[name][0] for name in PROGRAMS)}")
            return found
        if len(found) > 1:  # kubectl alone is a client
            say(f"PATH has {', '.join(found)} but {problem}: all programs are built")
    return _of(gobuild.build(_kubernetes(), say))


def kubectl(say: Say) -> tuple[str, ...]:
    """Return the command of kubectl from the same place as the servers, without checks, since any version works."""
    assets = os.environ.get(ASSETS, "")
    if assets and (found := shutil.which("kubectl", path=assets)):
        return (str(Path(found).absolute()),)
    return programs(say)["kubectl"]


def _kubernetes() -> gobuild.GoProgram:
    return gobuild.GoProgram(
        title=f"Kubernetes {KUBERNETES_VERSION}",
        source=PACKAGE / "kubedev",
        inputs=("main.go", "go.mod", "go.sum"),
        linker=LINKER,
        home=cache.root() / "kubedev",
        name="kubedev",
        minutes=5,
        otherwise=f"set {ASSETS} to a directory that holds " + ", ".join(PROGRAMS),
    )


def _of(binary: Path) -> Commands:
    return {name: (str(binary), name) for name in (*PROGRAMS, *REAL_NODE_PROGRAMS)}


def _found(path: str) -> tuple[Commands, str]:
    """Return the programs in these directories, and the end of a sentence on why they cannot be used, or nothing."""
    found = {name: (str(Path(file).absolute()),) for name in PROGRAMS if (file := shutil.which(name, path=path))}
    if missing := [name for name in PROGRAMS if name not in found]:
        return found, f"lacks {', '.join(missing)}"
    versions = {name: _version(found[name][0]) for name in SERVERS}
    if len(set(versions.values())) > 1 or min(versions.values()) < OLDEST:
        seen = ", ".join(f"{name} {major}.{minor}" for name, (major, minor) in versions.items())
        return found, f"has {seen}: one version of all is needed, {OLDEST[0]}.{OLDEST[1]} or newer"
    return found, ""


def _version(program: str) -> tuple[int, int]:
    """Return (major, minor); (0, 0) if it is unknown."""
    try:
        asked = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DevClusterError(f"{program} --version: {error}") from error
    said = VERSION.search(asked.stdout)
    return (int(said[1]), int(said[2])) if said else (0, 0)
