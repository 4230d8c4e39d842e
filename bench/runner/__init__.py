"""What the runner costs and how it scales, each figure beside its goal."""

from collections.abc import Callable

from bench.figure import Figure
from bench.runner import leading, memory, restarts, upstream

GROUPS: dict[str, Callable[[], list[Figure]]] = {
    "restarts": restarts.measure,
    "memory": memory.measure,
    "leading": leading.measure,
    "upstream": upstream.measure,
}


def measure() -> list[Figure]:
    """Eight minutes or so."""
    figures: list[Figure] = []
    for name, group in GROUPS.items():
        print(f"bench-runner: {name}", flush=True)
        figures += group()
    return figures
