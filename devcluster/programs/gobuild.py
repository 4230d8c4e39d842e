"""Programs built once from Go modules into the cache, with the progress of a build.

Standard library only: tools.bootstrap imports it before anything is installed.
"""

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine import cache, processes
from devcluster.machine.settings import DevClusterError

LEAST_PART = 0.03  # earlier than this the rate says nothing


def time_left(done: float, total: float, seconds: float) -> str:
    """Return the end of a line, such as ", about 3 min left"; empty while there is too little progress."""
    if total <= 0 or not LEAST_PART * total <= done < total:
        return ""
    remaining = seconds * (total - done) / done
    if remaining < 100:
        return f", about {max(10, round(remaining, -1)):.0f} s left"
    return f", about {remaining / 60:.0f} min left"


GO_SERIES = "go1.26"
INSTALLED_GO = Path("/usr/local/go/bin/go")  # of https://go.dev/dl; the PATH of a login shell lacks it
CORES = 2
OUTPUT_TAIL_LINES = 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram:
    """A Go package, pinned by the go.mod and go.sum of a directory."""

    title: str  # for people
    source: Path
    inputs: tuple[str, ...]
    linker: str
    package: str = "."
    home: Path  # in the cache; every build has a separate directory there
    name: str  # of the binary
    minutes: int  # on two quiet cores
    otherwise: str = ""  # what to do without Go
    c_compiler: bool = False  # whether it has parts in C

    @property
    def command(self) -> tuple[str, ...]:
        return ("go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", self.linker)

    def go(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [_go() or "go", *arguments]
        return subprocess.run(
            command, cwd=self.source, env=_environment(self), capture_output=True, text=True, check=False
        )


def build(program: GoProgram, say: Say) -> Path:
    """Return the binary, built if the cache lacks it; only then Go is needed."""
    place = _place(program)
    if place.exists():
        return place
    toolchain = check(program)
    place.parent.mkdir(parents=True, exist_ok=True)
    with cache.hold_lock(place.with_name("lock"), f"is building {program.title}", say):
        if not place.exists():  # the process that held the lock may have built it
            _compile(program, place, toolchain, say)
    return place


def cached(program: GoProgram) -> Path | None:
    place = _place(program)
    return place if place.exists() else None


def check(program: GoProgram) -> str:
    """Return the Go version in use; raise DevClusterError, with the remedy, if it cannot be used."""
    if _go() is None:
        raise DevClusterError(
            f"Go is not installed; {program.title} is built with {GO_SERIES}: install it from https://go.dev/dl"
            + (f", or {program.otherwise}" if program.otherwise else "")
        )
    if program.c_compiler and shutil.which("cc") is None:
        raise DevClusterError(
            f"No C compiler (cc) is on PATH, and {program.title} has parts in C. Install the packages gcc and libc6-dev"
            + (f", or {program.otherwise}" if program.otherwise else "")
        )
    asked = program.go("env", "GOVERSION")
    version = asked.stdout.strip()
    if asked.returncode or not re.match(re.escape(GO_SERIES) + r"\b", version):
        raise DevClusterError(
            f"Go {version or asked.stderr.strip()} cannot build {program.title}: {GO_SERIES} is needed (older "
            "ones lack what the modules use, a server built with 1.27 serves a broken OpenAPI document). "
            f"Install it, or let Go fetch it: export GOTOOLCHAIN={GO_SERIES}.0"
        )
    return version


def _go() -> str | None:
    return shutil.which("go") or shutil.which(INSTALLED_GO)


def _place(program: GoProgram) -> Path:
    """Key it by the series of Go, not by its patch, so that no Go is needed to find it."""
    digest = hashlib.sha256()
    files = ((program.source / name).read_bytes() for name in program.inputs)
    for part in (*files, GO_SERIES.encode(), platform.machine().encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update("\0".join(program.command).encode())
    return program.home / digest.hexdigest() / program.name


def _environment(program: GoProgram) -> dict[str, str]:
    """Keep settings of an outer workspace or vendor folder away from this module."""
    cgo = str(int(program.c_compiler))
    return {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": cgo}


@dataclass(slots=True)
class _Progress:
    """Progress by the compiler's output: one line for each module fetched and each package compiled."""

    total: int = 0
    compiled: int = 0
    fetched: int = 0
    other: tuple[str, ...] = ()

    def read(self, line: str) -> None:
        line = line.strip()
        if line.startswith("go: downloading "):
            self.fetched += 1
        elif re.fullmatch(r"[\w.~/+-]+", line) and not line.endswith(":"):
            self.compiled += 1
        else:
            self.other = (*self.other, line)[-OUTPUT_TAIL_LINES:]

    def text(self, seconds: float, cpu_seconds: float, all_cpu_seconds: float) -> str:
        """Estimate the time left from CPU time: early packages are small, so their number grows too fast."""
        fetched = f"{self.fetched} modules fetched, " if self.fetched else ""
        of_all = f" of at most {self.total}" if self.total else ""
        left = time_left(cpu_seconds, all_cpu_seconds, seconds)
        if cpu_seconds >= all_cpu_seconds:  # a slower machine
            left = time_left(self.compiled, self.total, seconds)
        return f"{fetched}{self.compiled}{of_all} packages compiled{left}"


def _compile(program: GoProgram, place: Path, toolchain: str, say: Say) -> None:
    about = f"about {program.minutes} minutes on two cores, once; into {place}"
    say(f"building {program.title} with {toolchain}: {about}")
    partial = place.with_name(f"{program.name}.{os.getpid()}.part")
    progress = _Progress()
    started = time.monotonic()
    command = [_go() or "go", *program.command[1:], "-o", str(partial), program.package]
    process = processes.start_piped(command, cwd=program.source, env=_environment(program))

    def beat() -> None:
        seconds = time.monotonic() - started
        cpu_seconds = 0.0
        with contextlib.suppress(OSError):  # it has ended
            cpu_seconds = processes.cpu_seconds(process.pid)
        say(f"  {seconds:4.0f} s: {progress.text(seconds, cpu_seconds, program.minutes * 60 * CORES)}")

    # Not here: while modules are fetched its answer takes as long as they do.
    threading.Thread(target=_count, args=(program, progress), daemon=True).start()
    try:
        processes.follow(process, "go build", progress.read, beat)
        beat()
        partial.rename(place)
    except DevClusterError as error:
        raise DevClusterError("go build failed:\n" + "\n".join(progress.other)) from error
    finally:
        partial.unlink(missing_ok=True)
    say(f"built in {time.monotonic() - started:.0f} s")


def _count(program: GoProgram, progress: _Progress) -> None:
    """Count all packages; those in Go's build cache are not compiled again."""
    with contextlib.suppress(OSError):  # the build may have ended, and Go's folder with it
        progress.total = len(program.go("list", "-deps", program.package).stdout.splitlines())
