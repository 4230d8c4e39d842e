"""Whether the kernel killed processes of this container for want of memory, told by its cgroup."""

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def events_file(memberships: str, root: Path = CGROUPS) -> Path | None:
    """Where the kernel counts them, given /proc/self/cgroup. A container may see its own cgroup as the root."""
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        below = path.lstrip("/")
        candidates: tuple[Path, ...] = ()
        if not controllers:  # version 2
            candidates = (
                root / below / "memory.events",
                root / "memory.events",
                root / "unified" / below / "memory.events",
            )
        elif "memory" in controllers.split(","):
            candidates = (root / "memory" / below / "memory.oom_control", root / "memory" / "memory.oom_control")
        for candidate in candidates:
            if candidate.is_file():
                return candidate
    return None


class OutOfMemory:
    """`happened()` once for each time that the kernel's count has grown."""

    def __init__(self) -> None:
        try:
            self._file = events_file(Path("/proc/self/cgroup").read_text())
        except OSError:
            self._file = None
        self._count = self._read()

    def happened(self) -> bool:
        count, before = self._read(), self._count
        self._count = count
        return count > before

    def _read(self) -> int:
        try:
            lines = self._file.read_text().splitlines() if self._file else []
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
