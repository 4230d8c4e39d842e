"""What ranks and the zygote do with torch's devices. This is the only module of theirs that calls a vendor's API."""

import ctypes
import functools
import itertools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from disttest_runner.compat import override
from disttest_runner.process_group import version_gates

CGROUP = Path("/sys/fs/cgroup")


class RankDevice:
    """The CPU, with gloo. The class of another device overrides every method."""

    visibility_variable = ""  # the environment variable that limits the devices that a process can use
    uses_gloo = True  # so cases expect what gloo cannot do
    warm_up_calls = 2  # of a collective: the first for a size, type and group opens connections

    def of_rank(self, local_rank: int) -> torch.device:  # noqa: ARG002 - for devices of which each rank has one
        return torch.device("cpu")

    def bind(self, device: torch.device) -> torch.device | None:  # noqa: ARG002 - same
        """Make `device` this process's current one; return the device_id for init_process_group()."""
        return None

    def synchronize(self) -> None:
        """Wait until all work that this process started has ended. Raises RuntimeError for the error of a device."""

    def query(self) -> None:
        """Raise RuntimeError for an error that stays with this process, without waiting for work."""

    def time_calls(self, call: Callable[[], object], iterations: int) -> list[float]:
        """Return the seconds that each call took."""
        stamps = [time.perf_counter()]
        for _ in range(iterations):
            call()
            stamps.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(stamps)]

    def free_bytes(self, device: torch.device) -> int:  # noqa: ARG002 - for devices of which each rank has one
        """Return the memory that is free on the machine or in the container, whichever is less."""
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
        try:
            limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        except OSError:  # no cgroup of version 2 here
            return free
        return free if limit == "max" else min(free, max(0, int(limit) - int(used)))

    def sharers(self, local_ranks: int) -> int:
        """Return the number of ranks that share the memory of one device."""
        return local_ranks

    def is_absent(self) -> bool:
        """Whether there is no such device. May start the driver."""
        return False

    def is_fork_safe(self) -> bool:
        """Whether this process was not forked after the driver was used."""
        return True

    def versions(self) -> dict[str, str]:
        """Return the versions of the vendor's libraries in torch. Does not start the driver."""
        return {}

    def float8_gap(self, device: torch.device) -> str:  # noqa: ARG002 - for devices that differ in it
        """Return why collectives of float8 fail on this device; empty if they do not."""
        return ""


class CudaGpu(RankDevice):
    """An NVIDIA GPU, with NCCL."""

    visibility_variable = "CUDA_VISIBLE_DEVICES"
    uses_gloo = False
    warm_up_calls = 5  # NCCL opens channels, too

    @override
    def of_rank(self, local_rank: int) -> torch.device:
        """One GPU per rank, unless NCCL allows several ranks on one. Reads NVML only, not the driver."""
        return torch.device("cuda", local_rank % max(1, torch.cuda.device_count()))

    @override
    def bind(self, device: torch.device) -> torch.device | None:
        torch.cuda.set_device(device)
        return device if version_gates.takes_device_id(torch.__version__) else None

    @override
    def synchronize(self) -> None:
        """Wait for every GPU on which this process has a context, not for its own one only."""
        for index in self._used():
            torch.cuda.synchronize(index)

    @override
    def query(self) -> None:
        """An error of a kernel stays with the context: from then on every call returns it, on every stream."""
        for index in self._used():
            torch.cuda.current_stream(index).query()

    @staticmethod
    def _used() -> list[int]:
        """Return the GPUs on which this process has a context."""
        if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types here
            return []
        has_context = torch._C._cuda_hasPrimaryContext  # type: ignore[attr-defined]  # noqa: SLF001 - public calls create it
        return [index for index in range(torch.cuda.device_count()) if has_context(index)]

    @override
    def time_calls(self, call: Callable[[], object], iterations: int) -> list[float]:
        """A collective runs on the current stream, or on one that it waits for: its events see both.

        The first record() of an event creates it, which is not a part of a call.
        """
        events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]  # type: ignore[no-untyped-call]  # torch has no types here
        for event in events:
            event.record()
        torch.cuda.synchronize()
        events[0].record()
        for event in events[1:]:
            call()
            event.record()
        torch.cuda.synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(events)]

    @override
    def free_bytes(self, device: torch.device) -> int:
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(device)[0])

    @override
    def sharers(self, local_ranks: int) -> int:
        return -(-local_ranks // torch.cuda.device_count())

    @override
    def is_absent(self) -> bool:
        return torch.cuda.device_count() == 0

    @override
    def is_fork_safe(self) -> bool:
        return not torch.cuda._is_in_bad_fork()  # noqa: SLF001 - the only access

    @override
    def versions(self) -> dict[str, str]:
        found = {"cuda": torch.version.cuda} if torch.version.cuda else {}
        if hasattr(torch._C, "_nccl_version"):  # noqa: SLF001 - the public function imports more
            found["nccl"] = nccl_version() or ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]  # torch has no types here
        return found

    @override
    def float8_gap(self, device: torch.device) -> str:
        capability = torch.cuda.get_device_capability(device)
        return version_gates.float8_gap(self.versions().get("nccl", ""), torch.__version__, capability)


# Finds a library only if this process has loaded it: another file of this name is not what torch uses.
_loaded = functools.partial(ctypes.CDLL, mode=os.RTLD_NOLOAD | os.RTLD_NOW)


def nccl_version(load: Callable[[str], Any] = _loaded) -> str:
    """Return the version of the NCCL that torch has loaded, or an empty string.

    LD_PRELOAD can replace the library, but torch reports the version that it was built with.
    """
    number = ctypes.c_int(0)
    try:
        is_known = load("libnccl.so.2").ncclGetVersion(ctypes.byref(number)) == 0 and number.value > 0
    except (OSError, AttributeError):
        return ""
    return f"{number.value // 10000}.{number.value % 10000 // 100}.{number.value % 100}" if is_known else ""


CPU = RankDevice()
BY_BACKEND: Mapping[str, RankDevice] = {"nccl": CudaGpu(), "gloo": CPU}  # a row for each backend of torch


def of_backend(backend: str) -> RankDevice:
    return BY_BACKEND.get(backend, CPU)
