"""Linux process control: ends processes with their parent, adopts orphans, and kills whole process trees."""

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from disttest_runner.linux import kernel_states

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.005
BROKE = 70  # exit code of a process whose main function raised (EX_SOFTWARE)
EXEC_SECONDS = 0.1  # no exec takes longer


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def die_with_parent(parent_pid: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send `signal_number` when the parent ends, also if it has ended already."""
    _prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal_number)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """End this process with what `main` returns, without the interpreter's shutdown: native threads may run."""
    code = BROKE
    try:
        code = main()
    except BaseException:  # noqa: BLE001 - this function must never return
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends, as process 1 of a container always is."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Keep other processes of the same user from reading memory and environment, hence the nonce."""
    _prctl(PR_SET_DUMPABLE, 0)


def kill_group(pid: int) -> None:
    """SIGKILL a process group, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_rank(pid: int) -> None:
    """SIGKILL an unreaped process and its group, which it may have left."""
    kill_group(pid)
    _kill(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def children(pid: int | str = "self") -> list[int]:
    """Return the running and the unreaped children of a process."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in listing.read_text().split()]
    return found


def command(pid: int, proc: Path = kernel_states.PROC) -> str:
    """Return the command line of a running process; empty for one that has ended.

    During an exec there is none for a moment, although the process that started it may have continued already.
    """
    deadline = time.monotonic() + EXEC_SECONDS
    while kernel_states.read(pid, proc=proc).letter not in kernel_states.ENDED:
        with contextlib.suppress(OSError):
            if text := (proc / f"{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip():
                return text
        if time.monotonic() > deadline:
            return "(no command line)"
        time.sleep(EXEC_SECONDS / 100)
    return ""


def kill_tree(pid: int) -> None:
    """SIGKILL a process, if it still exists, and all its descendants."""
    for one in [pid, *_descendants(pid)]:
        _kill(one)


def _descendants(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *_descendants(child))]


def kill_orphans() -> list[str]:
    """Kill what ranks had started and not ended; return the command lines.

    Processes that this one started are in its process group, those of ranks are not.
    """
    found, mine = [], os.getpgrp()
    for pid in children():
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.getpgid(pid) == mine:
                continue
            if text := command(pid):
                found.append(text)
                kill_tree(pid)
            os.waitpid(pid, os.WNOHANG)  # or at the next call
    return found


def kill_all_children(deadline_seconds: float) -> list[int]:
    """SIGKILL every child and every orphan adopted meanwhile; return those that outlived the deadline."""
    deadline = time.monotonic() + deadline_seconds
    while True:
        remaining = children()
        for pid in remaining:
            kill_rank(pid)
        while _reap_one():
            pass
        if not remaining or time.monotonic() > deadline:
            return remaining
        time.sleep(POLL_SECONDS)


def _reap_one() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False
