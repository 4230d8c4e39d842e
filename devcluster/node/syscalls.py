"""System calls that Python 3.11 does not have."""

import ctypes
import os
import signal
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
    """Makes a file or directory, with all that is mounted in it, visible at another place."""
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
    """From the next exec on, root has only these."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if number not in wanted:
            _call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)


def forbid_new_privileges() -> None:
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
