"""What the kernel says of a process that does not answer."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
STOPPED = ("T", "t")
RUNNING = "R"
ENDED = ("", "Z", "X")  # gone, not reaped, just being reaped


@dataclass(frozen=True, slots=True)
class State:
    letter: str  # of the main thread, as in /proc/PID/stat; empty: the process is gone
    wait_channel: str  # where in the kernel it sleeps, if we may know


def read(pid: int, thread: int | None = None, proc: Path = PROC) -> State:
    """Of a process, or of one of its threads."""
    folder = proc / str(pid) if thread is None else proc / str(pid) / "task" / str(thread)
    try:
        # the name in parentheses may hold anything, parentheses and newlines included
        words = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        letter = words[0].decode()
    except (OSError, IndexError, ValueError):
        return State("", "")
    channel = ""
    with contextlib.suppress(OSError):
        channel = (folder / "wchan").read_text().strip()
    return State(letter, "" if channel == "0" else channel)


# The letters whose meaning needs nothing else.
WORDS = {
    "": "is gone",
    "T": "is stopped (SIGSTOP or a debugger)",
    "t": "is stopped by a tracer",
    "D": "is in an uninterruptible wait in the kernel",
    "Z": "has ended and was not reaped",
    "X": "has ended and was not reaped",
}


def describe(now: State, *, watcher: str) -> str:
    """Why a rank has not answered. `watcher` is the letter of the thread that would have, empty if there is none.

    That thread was woken: if it sleeps, it sleeps for the interpreter's lock.
    """
    where = f" ({now.wait_channel})" if now.wait_channel else ""
    if now.letter in WORDS:
        return WORDS[now.letter] + (where if now.letter == "D" else "")
    if not watcher:
        return "cannot answer: the runner's thread in it is gone"
    if watcher == RUNNING:
        return "gets too little of a processor to answer"
    doing = "runs" if now.letter == RUNNING else "sleeps"
    return f"{doing} in C{where} and keeps the interpreter's lock: no other Python thread of it can run"


def is_proof(now: State, *, watcher: str) -> bool:
    """Whether its silence shows that a rank does not wait for others: who does lets other threads run."""
    return now.letter in WORDS or watcher not in ("", RUNNING)
