"""A process that may outlive us, remembered by its id and its start time: ids are used again."""

import contextlib
import os
import signal
import time
from pathlib import Path

END_SECONDS = 20
POLL_SECONDS = 0.01


class _EndedError(Exception):
    pass


def remember(pid: int, file: Path) -> None:
    file.write_text(f"{pid} {_start_time(pid)}")


def recall(file: Path) -> int | None:
    """The process id; None if that process has ended, even if another one has its number now."""
    try:
        pid, started = file.read_text().split()
        return int(pid) if _start_time(int(pid)) == started else None
    except (FileNotFoundError, ValueError, _EndedError):
        return None


def _start_time(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise _EndedError from error
    state, *fields = text.rsplit(")", 1)[1].split()  # the name before it may hold anything
    if state in "ZX":
        raise _EndedError
    return fields[18]


def children(pid: int) -> list[int]:
    """Of the main thread, which is the only one to start processes in what we start."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill_namespace(unshare: int, file: Path) -> bool:
    """Kills PID 1 of the namespace below `unshare` and waits until all that was in it is gone; False if it is not.

    PID 1 has ended only when every process of its namespace has: `unshare` waits for that, so it is killed itself only
    if it has no child yet.
    """
    deadline = time.monotonic() + END_SECONDS
    while recall(file) is not None:
        if time.monotonic() > deadline:
            return False
        for pid in children(unshare) or [unshare]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(unshare, os.WNOHANG)  # ours to reap if we started it
        time.sleep(POLL_SECONDS)
    return True
