"""The programs of Kubernetes: built once from Go modules into the cache, or taken from KUBEBUILDER_ASSETS."""

import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster import cache, locks
from devcluster.errors import ClusterError
from devcluster.settings import PACKAGE, PROGRAMS, REAL_NODE_PROGRAMS

SOURCE = PACKAGE / "kubedev"
INPUTS = ("main.go", "go.mod", "go.sum")
KUBERNETES_VERSION = "v1.36.3"
GO_SERIES = "go1.26"
VERSION_VARIABLE = "k8s.io/component-base/version"
VERSIONS = {"gitVersion": KUBERNETES_VERSION, "gitMajor": "1", "gitMinor": "36"}
LINKER = " ".join(["-s -w", *(f"-X {VERSION_VARIABLE}.{name}={value}" for name, value in VERSIONS.items())])
BUILD = ("go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", LINKER)
PROGRESS_SECONDS = 5
OUTPUT_TAIL_LINES = 20

Say = Callable[[str], None]


def programs(say: Say) -> Mapping[str, tuple[str, ...]]:
    """The command of each program, built first if need be."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return _from_assets(Path(assets))
    binary = str(build(say))
    return {name: (binary, name) for name in (*PROGRAMS, *REAL_NODE_PROGRAMS)}


def _from_assets(directory: Path) -> Mapping[str, tuple[str, ...]]:
    found = {name: directory / name for name in PROGRAMS}
    missing = [name for name, file in found.items() if not os.access(file, os.X_OK)]
    if missing:
        raise ClusterError(
            f"KUBEBUILDER_ASSETS={directory} lacks {', '.join(missing)}; put these programs there "
            "(the usual archives have no kube-controller-manager and kube-scheduler), or unset it to build all of them"
        )
    return {name: (str(file.absolute()),) for name, file in found.items()}


def build(say: Say) -> Path:
    """The binary that holds all programs."""
    toolchain = _toolchain()
    place = cache.kubedev() / _key(toolchain) / "kubedev"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with locks.held(place.with_name("lock"), "is building the Kubernetes programs", say):
        if not place.exists():  # the one who held the lock may have built it
            _compile(place, toolchain, say)
    return place


def _toolchain() -> str:
    """The Go version in use, if it is one that works."""
    if shutil.which("go") is None:
        raise ClusterError(
            f"Go is not installed; the Kubernetes programs are built with {GO_SERIES}: install it from "
            "https://go.dev/dl, or set KUBEBUILDER_ASSETS to a directory that holds " + ", ".join(PROGRAMS)
        )
    asked = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=SOURCE, env=_environment(), capture_output=True, text=True, check=False
    )
    version = asked.stdout.strip()
    if asked.returncode or not re.match(re.escape(GO_SERIES) + r"\b", version):
        raise ClusterError(
            f"Go {version or asked.stderr.strip()} cannot build the Kubernetes programs: {GO_SERIES} is needed (older "
            "ones lack what the modules use, a server built with 1.27 serves a broken OpenAPI document). "
            f"Install it, or let Go fetch it: export GOTOOLCHAIN={GO_SERIES}.0"
        )
    return version


def _key(toolchain: str) -> str:
    digest = hashlib.sha256()
    for part in (*((SOURCE / name).read_bytes() for name in INPUTS), toolchain.encode(), platform.machine().encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update("\0".join(BUILD).encode())
    return digest.hexdigest()


def _environment() -> dict[str, str]:
    """Settings of an outer workspace or vendor folder must not reach this module."""
    return {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}


@dataclass(slots=True)
class _Progress:
    """What the compiler's output says so far: one line for each module fetched and each package compiled."""

    total: int = 0
    compiled: int = 0
    fetched: int = 0
    other: tuple[str, ...] = ()

    def read(self, line: str) -> None:
        if line.startswith("go: downloading "):
            self.fetched += 1
        elif re.fullmatch(r"[\w.~/+-]+", line) and not line.endswith(":"):
            self.compiled += 1
        else:
            self.other = (*self.other, line)[-OUTPUT_TAIL_LINES:]

    def text(self) -> str:
        fetched = f"{self.fetched} modules fetched, " if self.fetched else ""
        return f"{fetched}{self.compiled} of at most {self.total} packages compiled"


def _compile(place: Path, toolchain: str, say: Say) -> None:
    say(f"building Kubernetes {KUBERNETES_VERSION} with {toolchain}: about 5 minutes on two cores, once; into {place}")
    partial = place.with_name(f"kubedev.{os.getpid()}.part")
    progress = _Progress()
    begun = time.monotonic()
    process = subprocess.Popen(
        [*BUILD, "-o", str(partial), "."],
        cwd=SOURCE,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # its compilers are one group, which we can end
    )
    reader = threading.Thread(target=_read, args=(process, progress), daemon=True)
    reader.start()
    try:
        progress.total = _package_count()
        while reader.is_alive():
            reader.join(PROGRESS_SECONDS)
            say(f"  {time.monotonic() - begun:4.0f} s: {progress.text()}")
        if process.wait():
            raise ClusterError("go build failed:\n" + "\n".join(progress.other))
        partial.rename(place)
    finally:
        if process.poll() is None:  # interrupted
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        partial.unlink(missing_ok=True)
    say(f"built in {time.monotonic() - begun:.0f} s")


def _read(process: subprocess.Popen[str], progress: _Progress) -> None:
    for line in process.stdout or ():
        progress.read(line.strip())


def _package_count() -> int:
    """How many packages there are at most: those that are in Go's build cache are not compiled again."""
    listed = subprocess.run(
        ["go", "list", "-deps", "."], cwd=SOURCE, env=_environment(), capture_output=True, text=True, check=False
    )
    return len(listed.stdout.splitlines())
