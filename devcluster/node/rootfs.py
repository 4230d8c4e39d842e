"""The root directory of a container: the host's files, read-only, with private places and volumes on top."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_NOSUID, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 2, 4096, 8192, 16384, 1 << 18
SYS_MOUNT_SETATTR = 442  # the same number on every architecture
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    texts = [text.encode() if text else None for text in (kind, options)]
    _call("mount", source.encode(), os.fsencode(target), texts[0], flags, texts[1])


def bind(source: str, target: Path) -> None:
    """Mount a file or directory, with all mounts in it, at another place."""
    mount(source, target, flags=MS_BIND | MS_REC)


def make_read_only(target: Path, *, recursive: bool = True) -> None:
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    size = ctypes.sizeof(attributes)
    _call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, attributes, size)


def enter_namespace(file: Path) -> None:
    with file.open() as namespace:
        _call("setns", namespace.fileno(), 0)


def unshare(flags: int) -> None:
    _call("unshare", flags)


def die_with_parent() -> None:
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def keep_capabilities(wanted: frozenset[int]) -> None:
    """Drop all other capabilities, as of the next exec."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if number not in wanted:
            _call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)


def forbid_new_privileges() -> None:
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


OWN = frozenset({"proc", "dev", "tmp", "run"})
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
GPU_DEVICES = ("nvidia*", "infiniband")
DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
SHM_SIZE = "64m"  # what container runtimes give a pod that mounts no emptyDir on /dev/shm
KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus")  # below /proc: of the whole machine, not of the container


class Root:
    """A tmpfs with the host's entries, to which mount points for volumes can be added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._volumes: set[str] = set()
        mount("tmpfs", path, "tmpfs", MS_NOSUID, "mode=755")
        self._show_host("/", skip=OWN)
        for private in ("/tmp", "/run"):  # noqa: S108 - the container's own
            self.tmpfs(private, "mode=1777")

    def _at(self, path: str) -> Path:
        return self._path / path.lstrip("/")

    def _show_host(self, directory: str, skip: Collection[str] = ()) -> None:
        """Mount every entry of a host directory into the empty directory of the same name."""
        for entry in os.scandir(directory):
            target = self._at(entry.path)
            if entry.name in skip:
                continue
            if entry.is_symlink():
                target.symlink_to(Path(entry.path).readlink())
            elif entry.is_dir():
                target.mkdir()
                self._show(entry.path, target)
            elif entry.is_file():
                target.touch()
                self._show(entry.path, target)

    @staticmethod
    def _show(source: str, target: Path) -> None:
        bind(source, target)
        make_read_only(target)

    def _mount_point(self, path: str, *, directory: bool) -> Path:
        """Return the path to mount on; create it if it is missing.

        Where a read-only host directory is in the way, a tmpfs that shows the same entries replaces it.
        """
        walked = "/"
        parts = os.path.normpath(path).split("/")[1:]
        for number, part in enumerate(parts):
            here = os.path.join(walked, part)  # noqa: PTH118 - a path inside, which Path would read as one outside
            place = self._at(here)
            rest = parts[number + 1 :]
            if place.is_symlink():  # such as /var/run -> /run
                return self._mount_point(os.path.join(walked, place.readlink(), *rest), directory=directory)  # noqa: PTH118 - same
            if not place.exists():
                self._make(walked, place, directory=directory or bool(rest))
            walked = here
        return self._at(walked)

    def _make(self, parent: str, place: Path, *, directory: bool) -> None:
        create = place.mkdir if directory else place.touch
        try:
            create()
        except OSError:
            mount("tmpfs", place.parent, "tmpfs", MS_NOSUID, "mode=755")
            self._show_host(parent)
            create()

    def tmpfs(self, path: str, options: str) -> None:
        mount("tmpfs", self._mount_point(path, directory=True), "tmpfs", MS_NOSUID, options)

    def proc(self) -> None:
        place = self._mount_point("/proc", directory=True)
        mount("proc", place, "proc")
        for name in KERNEL_SETTINGS:
            with contextlib.suppress(FileNotFoundError):
                self._show(str(place / name), place / name)

    def devices(self, *, gpus: bool) -> None:
        place = self._mount_point("/dev", directory=True)
        mount("tmpfs", place, "tmpfs", MS_NOSUID, "mode=755")
        host = Path("/dev")
        special = [match for pattern in GPU_DEVICES for match in host.glob(pattern)] if gpus else []
        for source in [*(host / name for name in DEVICES), *special]:
            bind(str(source), self._mount_point(str(source), directory=source.is_dir()))
        for name, target in DEVICE_LINKS.items():
            (place / name).symlink_to(target)
        (place / "pts").mkdir()
        mount("devpts", place / "pts", "devpts", MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
        self.tmpfs("/dev/shm", f"mode=1777,size={SHM_SIZE}")  # noqa: S108 - the container's own

    def show_hidden(self, path: str) -> None:
        """Mount a host directory again that the container's /tmp or /run hides."""
        if path.startswith(("/tmp/", "/run/")):  # noqa: S108 - the container's own
            self._show(path, self._mount_point(path, directory=True))

    def file(self, path: str, text: str) -> None:
        """Replace a file of the host by one in /run, mounted over it."""
        own = self._at("/run") / ("own-" + path.strip("/").replace("/", "-"))
        own.write_text(text)
        bind(str(own), self._mount_point(path, directory=False))

    def volume(self, source: str, target: str, *, read_only: bool) -> None:
        place = self._mount_point(target, directory=Path(source).is_dir())
        bind(source, place)
        self._volumes.add(target.rstrip("/"))
        if read_only:
            make_read_only(place)

    def enter(self, *, read_only: bool) -> None:
        if read_only:
            for path in {"/", "/tmp", "/run"} - self._volumes:  # noqa: S108 - the container's own
                make_read_only(self._at(path), recursive=False)
        os.chdir(self._path)
        mount(".", Path("/"), flags=MS_MOVE)
        os.chroot(".")
        os.chdir("/")
