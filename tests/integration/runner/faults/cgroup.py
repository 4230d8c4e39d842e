"""A memory limit for one agent and its children: a separate cgroup, version 2 or 1, removed at the end."""

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import Self

from tests.support import patience

ROOT = Path("/sys/fs/cgroup")
REMOVE_SECONDS = 5.0


def _parent() -> tuple[Path, str] | None:
    """Where a group can be made, and the file that limits it."""
    if "memory" in _read(ROOT / "cgroup.subtree_control").split():
        return ROOT, "memory.max"
    if (ROOT / "memory" / "memory.limit_in_bytes").exists():
        return ROOT / "memory", "memory.limit_in_bytes"
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


class Cgroup:
    def __init__(self, limit_bytes: int) -> None:
        found = _parent()
        if found is None:
            raise RuntimeError("no cgroup with a memory limit can be made here")
        parent, limit = found
        self.path = parent / f"disttest-fault-{secrets.token_hex(4)}"
        self.path.mkdir()
        (self.path / limit).write_text(str(limit_bytes))

    @classmethod
    def lacks(cls) -> str:
        """Why a limit cannot be set here, if so."""
        if _parent() is None:
            return "no memory cgroup can be made here: its controller is not mounted, or not enabled for children"
        try:
            with cls(1 << 30):
                return ""
        except OSError as error:
            return f"no memory cgroup can be made here: {error}"

    @property
    def wrap(self) -> list[str]:
        """Enters the group, then becomes the program."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Processes that ended a moment ago may still be counted."""
        deadline = patience.Deadline(REMOVE_SECONDS)
        while self.path.exists():
            for pid in _read(self.path / "cgroup.procs").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            with contextlib.suppress(OSError):
                self.path.rmdir()
            if deadline.has_passed():
                raise RuntimeError(f"{self.path} cannot be removed")
            time.sleep(0.02)
