"""The root directory of a container: the host's files, read-only, with private places and volumes on top."""

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from devcluster.node.syscalls import MS_MOVE, MS_NOSUID, bind, make_read_only, mount

OWN = frozenset({"proc", "dev", "tmp", "run"})
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
GPU_DEVICES = ("nvidia*", "infiniband")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "fd/0",
    "stdout": "fd/1",
    "stderr": "fd/2",
    "ptmx": "pts/ptmx",
}
SHM_SIZE = "64m"  # what container runtimes give a pod that mounts no emptyDir on /dev/shm
KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus")  # below /proc: of the whole machine, not of the container


class Root:
    """A tmpfs that shows the host's entries and grows mount points where volumes want them."""

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
        """Makes every entry of a host directory visible in the (empty) directory of the same name."""
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
        """The place to mount on, made if it is missing.

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
        """Of the container's own PID namespace."""
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
        """A host directory that the container's own /tmp or /run would hide."""
        if path.startswith(("/tmp/", "/run/")):  # noqa: S108 - the container's own
            self._show(path, self._mount_point(path, directory=True))

    def file(self, path: str, text: str) -> None:
        """A file of our own in place of the host's: kept in /run, bound over the path."""
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
