"""Memory of GPUs between two generations."""

import asyncio
from collections.abc import Sequence

from disttest_runner.agent.local_ranks import MARGIN_BYTES, MemoryRelease

GIB = 1 << 30


def problems(readings: Sequence[tuple[int, ...]], calls: int, seconds: float = 10) -> list[str]:
    """What each call says; the last reading stays."""
    left = list(readings)

    def used_bytes() -> dict[str, int]:
        return {f"GPU {index + 2}": used for index, used in enumerate(left.pop(0) if len(left) > 1 else left[0])}

    memory = MemoryRelease(used_bytes)

    async def ask() -> list[str]:
        return [await memory.wait(seconds) for _ in range(calls)]

    return asyncio.run(ask())


def test_memory_that_comes_back_is_waited_for() -> None:
    assert problems([(GIB, GIB), (GIB, 70 * GIB), (GIB, 9 * GIB), (GIB, GIB + MARGIN_BYTES)], 2) == ["", ""]


def test_memory_that_does_not_come_back_is_a_problem_with_numbers() -> None:
    _, problem = problems([(GIB, GIB), (GIB, 70 * GIB)], 2, seconds=0.05)
    assert "GPU 3 still has 71680 MiB in use" in problem
    assert "1024 MiB before they started" in problem


def test_without_gpus_nothing_is_waited_for() -> None:
    assert problems([()], 3) == ["", "", ""]
