"""Limits on this pod's open files, locked memory and shared memory, and its count of out-of-memory kills.

Unauthenticated connections must never take the file descriptors that agents' connections and ranks need.
"""

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from disttest_contract.gang.plan import RunPlan
from disttest_contract.results.preflight import UNLIMITED
from disttest_contract.text import formatting

AT_START = resource.getrlimit(resource.RLIMIT_NOFILE)  # soft and hard, which ranks get back
ENOUGH = 65536  # some containers allow a billion, and some libraries iterate over all that are allowed
OF_AGENT = 64  # standard streams, event loop, zygotes, store, debuggers
OF_RANK = 8  # socket, output, watcher and stacks; those of the last generation may still be open
MOST_STRANGERS, FEWEST_STRANGERS = 256, 8
MOST_ACCEPTED = 100  # at once; asyncio's own number


def raise_limit() -> int:
    """Raise the soft limit of this process towards the hard one; return the new limit."""
    soft, hard = AT_START
    unlimited = resource.RLIM_INFINITY
    wanted = ENOUGH if hard == unlimited else min(hard, ENOUGH)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return ENOUGH if soft == unlimited else soft


def lower_limit(pid: int) -> None:
    """Restore in a child process the limit that this one was started with: tests see what the container allows."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, AT_START)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFiles:
    """The file descriptors of one agent. Half of what it does not need is for unauthenticated connections.

    A quarter of those is accepted at once: up to three such batches may be open before the oldest are closed.
    """

    limit: int
    needed: int
    what: str  # the agent, in words

    @classmethod
    def of(cls, plan: RunPlan, node_index: int, limit: int) -> "OpenFiles":
        ranks = OF_AGENT + OF_RANK * plan.ranks_per_node
        if node_index:
            return cls(limit=limit, needed=ranks, what=f"an agent of {formatting.counted(plan.ranks_per_node, 'rank')}")
        size = formatting.gang_size(plan.nodes, plan.ranks_per_node)
        needed = ranks + plan.nodes + 2 * FEWEST_STRANGERS
        return cls(limit=limit, needed=needed, what=f"the leader of {size}")

    @property
    def problem(self) -> str:
        """Return a sentence if the limit is too low, else an empty string."""
        if self.limit >= self.needed:
            return ""
        return (
            f"{self.what} needs {self.needed} open files, but its limit is {self.limit}. "
            "Increase the hard limit (ulimit -Hn, or in the container runtime), or use fewer nodes or ranks"
        )

    @property
    def strangers(self) -> int:
        """Return the number of connections that may be open without having sent the nonce."""
        return min(MOST_STRANGERS, FEWEST_STRANGERS + max(0, self.limit - self.needed) // 2)

    @property
    def accepted_at_once(self) -> int:
        return max(1, min(MOST_ACCEPTED, self.strangers // 4))


SELF = Path("/proc/self")
IPC_LOCK = 1 << 14  # CAP_IPC_LOCK
EVERY_USER = ["0", "0", str(2**32 - 1)]  # the map of users outside of user namespaces
SHM = "/dev/shm"  # noqa: S108 - the kernel's, no temporary file is made there


def memlock_bytes(process: Path = SELF) -> int:
    """Return RLIMIT_MEMLOCK, UNLIMITED for a process with CAP_IPC_LOCK outside of user namespaces."""
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    has_no_limit = locked == resource.RLIM_INFINITY or _has_ipc_lock(process)
    return UNLIMITED if has_no_limit else locked


def _has_ipc_lock(process: Path) -> bool:
    try:
        status = (process / "status").read_text()
        is_machines = (process / "uid_map").read_text().split() == EVERY_USER
    except OSError:
        return False
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return is_machines and bool(int(effective, 16) & IPC_LOCK)


def shm_bytes() -> int:
    """Return the size of /dev/shm, 0 where there is none."""
    try:
        found = os.statvfs(SHM)
    except OSError:
        return 0
    return found.f_frsize * found.f_blocks


CGROUPS = Path("/sys/fs/cgroup")


def events_file(memberships: str, root: Path = CGROUPS) -> Path | None:
    """Return the file that counts OOM kills, given /proc/self/cgroup. A container's cgroup may be the root."""
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
    def __init__(self) -> None:
        try:
            self._file = events_file(Path("/proc/self/cgroup").read_text())
        except OSError:
            self._file = None
        self._count = self._read()

    def happened(self) -> bool:
        """Whether the kernel has killed a process of this container since the last call."""
        count, before = self._read(), self._count
        self._count = count
        return count > before

    def _read(self) -> int:
        try:
            lines = self._file.read_text().splitlines() if self._file else []
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
