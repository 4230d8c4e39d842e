"""How many files an agent may have open (RLIMIT_NOFILE), how many it needs, and what that leaves for strangers.

Connections of strangers must never take the descriptors that agents' connections and ranks need.
"""

import resource
from dataclasses import dataclass
from pathlib import Path

from disttest_contract.gang.plan import RunPlan

AT_START = resource.getrlimit(resource.RLIMIT_NOFILE)  # soft and hard, as ranks are to have them
ENOUGH = 65536  # some containers allow a billion, and some libraries walk through all that are allowed
OF_AGENT = 64  # standard streams, event loop, zygotes, store, debuggers
OF_RANK = 8  # socket, output, watcher and stacks; those of the generation before may still be open
MOST_STRANGERS, FEWEST_STRANGERS = 256, 8
MOST_ACCEPTED = 100  # at once; asyncio's own number


def raise_limit() -> int:
    """Raise the soft limit of this process towards the hard one; returns what it is now."""
    soft, hard = AT_START
    unlimited = resource.RLIM_INFINITY
    wanted = ENOUGH if hard == unlimited else min(hard, ENOUGH)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return ENOUGH if soft == unlimited else soft


def lower_limit(pid: int) -> None:
    """Give a child process back the limit that this process was started with: tests see what the container allows."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, AT_START)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFiles:
    """The budget of one agent; half of what it does not need is for strangers, a quarter of that is accepted at once.

    Up to three lots that were accepted may be open before the oldest strangers have been closed.
    """

    limit: int
    needed: int
    what: str

    @classmethod
    def of(cls, plan: RunPlan, node_index: int, limit: int) -> "OpenFiles":
        ranks = OF_AGENT + OF_RANK * plan.ranks_per_node
        if node_index:
            return cls(limit=limit, needed=ranks, what=f"an agent of {plan.ranks_per_node} ranks")
        needed = ranks + plan.nodes + 2 * FEWEST_STRANGERS
        return cls(limit=limit, needed=needed, what=f"the leader of {plan.nodes} nodes x {plan.ranks_per_node} ranks")

    @property
    def problem(self) -> str:
        """A sentence, if the limit is too low."""
        if self.limit >= self.needed:
            return ""
        return (
            f"{self.what} needs {self.needed} open files, but its limit is {self.limit}: "
            "raise the hard limit (ulimit -Hn; in a pod the container runtime's), or use fewer nodes or ranks"
        )

    @property
    def strangers(self) -> int:
        """Connections that have not said who they are."""
        return min(MOST_STRANGERS, FEWEST_STRANGERS + max(0, self.limit - self.needed) // 2)

    @property
    def accepted_at_once(self) -> int:
        return max(1, min(MOST_ACCEPTED, self.strangers // 4))


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
