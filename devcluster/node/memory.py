"""The memory limit of a container, held by looking: an ordinary user has no cgroup to write to.

A container that exceeds it between two looks is killed at the next one. What counts is the memory of its processes,
shared pages in part; files on a tmpfs do not.
"""

import asyncio
from pathlib import Path

from devcluster.processes import children

LOOK_SECONDS = 0.2
KIB = 1024


async def exceeded(first_process: int, limit_bytes: int) -> int:
    """Returns what the container uses, as soon as that is over the limit."""
    while True:
        # The quick look counts a shared page once for each process; the exact one costs far more, so it comes second.
        pids = _below(first_process)
        if sum(_quick(pid) for pid in pids) > limit_bytes and (used := sum(_exact(pid) for pid in pids)) > limit_bytes:
            return used
        await asyncio.sleep(LOOK_SECONDS)


def _below(pid: int) -> list[int]:
    """A process and its descendants. Orphans become children of the container's first process, so nothing escapes."""
    found = [pid]
    for number in found:
        found += children(number)
    return found


def _quick(pid: int) -> int:
    return _sum(Path(f"/proc/{pid}/status"), ("RssAnon:", "RssShmem:"))


def _exact(pid: int) -> int:
    return _sum(Path(f"/proc/{pid}/smaps_rollup"), ("Pss_Anon:", "Pss_Shmem:"))


def _sum(file: Path, names: tuple[str, ...]) -> int:
    try:
        lines = file.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended
        return 0
    return sum(int(line.split()[1]) * KIB for line in lines if line.startswith(names))
