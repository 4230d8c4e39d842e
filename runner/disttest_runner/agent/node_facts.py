"""What an agent can say of its node before it joins."""

import os
import platform
import resource
from pathlib import Path

from disttest_contract.results.preflight import UNLIMITED, NodeFacts
from disttest_runner.agent import accelerator

SHARE_GPUS = "NCCL_MULTI_RANK_GPU_ENABLE"  # of NCCL 2.30 and newer
SELF = Path("/proc/self")
IPC_LOCK = 1 << 14  # CAP_IPC_LOCK
EVERY_USER = ["0", "0", str(2**32 - 1)]  # the map of users outside of user namespaces
SHM = "/dev/shm"  # noqa: S108 - the kernel's, not a place for files of ours


def inspect(node_name: str, *, uses_gpus: bool) -> NodeFacts:
    """Without GPUs in milliseconds; with them CUDA is tried as well."""
    found = accelerator.look() if uses_gpus else accelerator.Gpus()
    return NodeFacts(
        node_name=node_name,
        gpus=found.products,
        shares_gpus=os.environ.get(SHARE_GPUS) == "1",
        driver=found.driver,
        cuda_driver=found.cuda_driver,
        cuda_error=accelerator.why_cuda_fails() if found.products else "",
        shm_bytes=shm_bytes(),
        memlock_bytes=memlock_bytes(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
    )


def memlock_bytes(process: Path = SELF) -> int:
    """The limit does not hold for who has the capability, if that is the machine's and not a user namespace's."""
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
    """0 where there is none."""
    try:
        found = os.statvfs(SHM)
    except OSError:
        return 0
    return found.f_frsize * found.f_blocks
