"""What an agent can say of its node before it joins."""

import os
import platform
import resource

from disttest_contract.preflight import UNLIMITED, NodeFacts
from disttest_runner import gpus

SHARE_GPUS = "NCCL_MULTI_RANK_GPU_ENABLE"  # of NCCL 2.30 and newer
SHM = "/dev/shm"  # noqa: S108 - the kernel's, not a place for files of ours


def inspect(node_name: str, *, uses_gpus: bool) -> NodeFacts:
    """Without GPUs in milliseconds; with them CUDA is tried as well."""
    found = gpus.look() if uses_gpus else gpus.Gpus()
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return NodeFacts(
        node_name=node_name,
        gpus=found.products,
        shares_gpus=os.environ.get(SHARE_GPUS) == "1",
        driver=found.driver,
        cuda_driver=found.cuda_driver,
        cuda_error=gpus.why_cuda_fails() if found.products else "",
        shm_bytes=shm_bytes(),
        memlock_bytes=UNLIMITED if locked == resource.RLIM_INFINITY else locked,
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
    )


def shm_bytes() -> int:
    """0 where there is none."""
    try:
        found = os.statvfs(SHM)
    except OSError:
        return 0
    return found.f_frsize * found.f_blocks
