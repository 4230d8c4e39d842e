"""The kernel's state of a process that does not answer."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
STOPPED = ("T", "t")
RUNNING = "R"
ENDED = ("", "Z", "X")  # gone, not reaped, just being reaped
TICKS = os.sysconf("SC_CLK_TCK")  # in a second
LOCK_SECONDS = 0.05  # CPU time: a thread that runs Python code would have released the lock ten times


@dataclass(frozen=True, slots=True)
class KernelState:
    letter: str  # of the main thread, as in /proc/PID/stat; empty: the process is gone
    wait_channel: str  # where in the kernel it sleeps, if that is readable


def read(pid: int, thread: int | None = None, proc: Path = PROC) -> KernelState:
    """Return the state of a process, or of one of its threads."""
    folder = proc / str(pid) if thread is None else proc / str(pid) / "task" / str(thread)
    words = _stat(folder)
    if not words:
        return KernelState("", "")
    channel = ""
    with contextlib.suppress(OSError):
        channel = (folder / "wchan").read_text().strip()
    return KernelState(words[0], "" if channel == "0" else channel)


@dataclass(frozen=True, slots=True)
class Thread:
    letter: str
    cpu_seconds: float  # that it has used


Threads = Mapping[int, Thread]  # of a process, by the kernel's number


def threads(pid: int, proc: Path = PROC) -> dict[int, Thread]:
    """Empty if the process is gone."""
    found = {}
    with contextlib.suppress(OSError):
        for folder in (proc / str(pid) / "task").iterdir():
            words = _stat(folder)
            if words:
                found[int(folder.name)] = Thread(words[0], _cpu_seconds(folder, words))
    return found


def _stat(folder: Path) -> list[str]:
    """Return the fields after the name, which may contain anything, also parentheses and newlines."""
    try:
        return (folder / "stat").read_bytes().rpartition(b")")[2].decode().split()
    except (OSError, ValueError):
        return []


def _cpu_seconds(folder: Path, words: Sequence[str]) -> float:
    """Count nanoseconds where the kernel has them, else ticks."""
    try:
        return int((folder / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return (int(words[11]) + int(words[12])) / TICKS  # utime and stime


def is_starved(samples: Sequence[Threads], watcher: int) -> bool:
    """Whether a thread that may hold the interpreter's lock is runnable but gets almost no CPU time.

    Such a thread cannot release the lock, so a watcher that sleeps proves nothing. A watcher that never sleeps is
    starved itself.
    """
    first, last = samples[0], samples[-1]
    if watcher in last and all(one[watcher].letter == RUNNING for one in samples if watcher in one):
        return True
    for number in first.keys() & last.keys() - {watcher}:
        runnable = sum(one[number].letter == RUNNING for one in samples if number in one)
        used_seconds = last[number].cpu_seconds - first[number].cpu_seconds
        if 2 * runnable > len(samples) and used_seconds < LOCK_SECONDS:
            return True
    return False


# The letters whose meaning needs nothing else.
WORDS = {
    "": "is gone",
    "T": "is stopped (SIGSTOP or a debugger)",
    "t": "is stopped by a tracer",
    "D": "is in an uninterruptible wait in the kernel",
    "Z": "has ended and was not reaped",
    "X": "has ended and was not reaped",
}


def describe(now: KernelState, *, has_watcher: bool, is_starved: bool) -> str:
    """Return why a rank has not answered. Its watcher thread sleeps only for the interpreter's lock."""
    where = f" ({now.wait_channel})" if now.wait_channel else ""
    if now.letter in WORDS:
        return WORDS[now.letter] + (where if now.letter == "D" else "")
    if not has_watcher:
        return "cannot answer: its watcher thread ended"
    if is_starved:
        return "gets too little CPU time to answer"
    doing = "runs" if now.letter == RUNNING else "sleeps"
    return f"{doing} in C{where} and holds the interpreter lock, so that its other Python threads cannot run"


def is_proof(now: KernelState, *, has_watcher: bool, is_starved: bool) -> bool:
    """Whether a rank that does not answer cannot be waiting for others: a waiting rank lets other threads run."""
    return now.letter in WORDS or (has_watcher and not is_starved)
