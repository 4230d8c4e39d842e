"""A new generation may start when the GPUs have got back the memory of the one before."""

import asyncio
from collections.abc import Callable

MARGIN_BYTES = 512 << 20  # what a driver may keep for itself
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02


class GpuMemory:
    """`read` tells the bytes in use on each GPU; nothing where there is none."""

    def __init__(self, read: Callable[[], tuple[int, ...]]) -> None:
        self._read = read
        self._before: tuple[int, ...] | None = None

    async def wait_until_back(self, seconds: float = WAIT_SECONDS) -> str:
        """Called while no rank lives. Returns what is wrong, if anything; the first call only remembers."""
        now = await asyncio.to_thread(self._read) if self._before != () else ()
        if self._before is None or len(now) != len(self._before):
            self._before = now
            return ""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while kept := {gpu: used for gpu, used in enumerate(now) if used > self._before[gpu] + MARGIN_BYTES}:
            if loop.time() > deadline:
                gpu, used = next(iter(kept.items()))
                return (
                    f"GPU {gpu} still has {used >> 20} MiB in use {seconds:.0f} s after its ranks have ended, "
                    f"{self._before[gpu] >> 20} MiB before they began: "
                    "another process uses it, or the driver has not given it back"
                )
            await asyncio.sleep(POLL_SECONDS)
            now = await asyncio.to_thread(self._read)
        return ""
