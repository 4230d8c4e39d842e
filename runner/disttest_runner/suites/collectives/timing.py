"""Seconds of single calls of a collective, on the processor or on a GPU, and the memory that buffers may take."""

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from disttest_runner.gang import Gang

WARM_UP = {"gloo": 2, "nccl": 5}  # calls: the first of a size, type and group sets connections and channels up
CGROUP = Path("/sys/fs/cgroup")
SHARE = 0.5  # of what is free: the rest is for NCCL, the check, and whoever else needs some


def time_calls(call: Callable[[], object], gang: Gang, iterations: int) -> list[float]:
    """All ranks start together, then nobody waits for anybody but the collective itself."""
    for _ in range(WARM_UP[gang.backend]):
        call()
    dist.barrier()
    timed = _time_on_gpu if gang.device.type == "cuda" else _time_on_cpu
    return timed(call, iterations)


def _time_on_cpu(call: Callable[[], object], iterations: int) -> list[float]:
    stamps = [time.perf_counter()]
    for _ in range(iterations):
        call()
        stamps.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(stamps)]


def _time_on_gpu(call: Callable[[], object], iterations: int) -> list[float]:
    """A collective runs on a stream of its own, and the current one waits for it: events on the current one see it."""
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]  # type: ignore[no-untyped-call]  # torch has no types here
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(events)]


def usable_bytes(gang: Gang) -> int:
    """What the buffers of this rank may take."""
    local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
    if gang.device.type == "cuda":
        torch.cuda.empty_cache()
        sharing = -(-local_ranks // torch.cuda.device_count())  # ranks on one GPU
        return int(torch.cuda.mem_get_info(gang.device)[0] * SHARE / sharing)
    return int(_free_memory_bytes() * SHARE / local_ranks)


def anybody(name: str, gang: Gang, *, says_so: bool) -> bool:
    """Whether at least one rank says so, agreed on without the collectives that are being checked."""
    store = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - what the ranks have met at
    if says_so:
        store.add(f"{name}/yes", 1)
    if store.add(f"{name}/voted", 1) == gang.world_size:
        store.set(f"{name}/all", "voted")
    store.wait([f"{name}/all"])
    return bool(store.add(f"{name}/yes", 0))


def _free_memory_bytes() -> int:
    """Of the machine, or of the container where that has less."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    try:
        limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:  # no cgroup of version 2 here
        return free
    return free if limit == "max" else min(free, max(0, int(limit) - int(used)))
