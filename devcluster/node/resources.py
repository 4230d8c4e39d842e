"""The memory limit of a container, held by looking: an ordinary user has no cgroup to write to.

A container that exceeds it between two looks is killed at the next one. What counts is the memory of its processes,
shared pages in part; files on a tmpfs do not.
"""

import asyncio
import math
import re
from decimal import Decimal
from pathlib import Path

from devcluster.machine.processes import children

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


FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def parse_quantity(text: str) -> int:
    """Rounded up to a whole number, as the downward API does."""
    found = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)", text)
    if found is None or found[2] not in FACTORS:
        raise ValueError(f"{text!r} is no quantity that is understood here")
    return math.ceil(Decimal(found[1]) * FACTORS[found[2]])
