"""What the runner costs and how it scales, each figure beside its goal."""

from collections.abc import Callable

from bench.figure import Figure
from bench.runner import cases, leading, memory, restarts, scale, upstream

GROUPS: dict[str, Callable[[], list[Figure]]] = {
    "cases": cases.measure,
    "restarts": restarts.measure,
    "memory": memory.measure,
    "leading": leading.measure,
    "scale": scale.measure,
    "upstream": upstream.measure,
}


def measure() -> list[Figure]:
    """Ten minutes or so."""
    figures: list[Figure] = []
    for name, group in GROUPS.items():
        print(f"bench-runner: {name}", flush=True)
        figures += group()
    return figures
