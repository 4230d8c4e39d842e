"""How nccl-tests count size and bandwidth of each collective. No torch in here.

Bandwidth is size over time; times the factor it is what the wires must have carried, so that different collectives and
world sizes can be compared with each other and with the hardware.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    bus_factor: Callable[[int], float]  # of the world size
    counts_all_ranks: bool = False  # what is called its size: the parts of all ranks, or one


def _one(_: int) -> float:
    return 1.0


def _without_own(world_size: int) -> float:
    """A rank's own part needs no wire."""
    return (world_size - 1) / world_size


def _there_and_back(world_size: int) -> float:
    """Every part is collected, added up, and handed out again."""
    return 2 * _without_own(world_size)


COUNTINGS: Mapping[str, Counting] = MappingProxyType(
    {
        "all_reduce": Counting(bus_factor=_there_and_back),
        "all_gather": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "reduce_scatter": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "all_to_all": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "gather": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "scatter": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "broadcast": Counting(bus_factor=_one),
        "reduce": Counting(bus_factor=_one),
        "send_recv": Counting(bus_factor=_one),
        "send_recv_pair": Counting(bus_factor=_one),
    }
)


def elements_per_rank(collective: str, *, size_bytes: int, element_bytes: int, world_size: int) -> int:
    """Rounded up, so that no bandwidth is reported for bytes that were not moved."""
    parts = world_size if COUNTINGS[collective].counts_all_ranks else 1
    return -(-size_bytes // (element_bytes * parts))


def pairings(world_size: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Neighbours in a ring, in rounds of disjoint pairs: one round for two ranks, else two, or three if one is odd."""
    links = [(rank, (rank + 1) % world_size) for rank in range(world_size if world_size > 2 else 1)]
    end = world_size - 1
    rounds = [links[:end:2], links[1:end:2], links[end:]]
    if world_size % 2 == 0:
        rounds = [rounds[0], rounds[1] + rounds[2]]
    return tuple(tuple(pairs) for pairs in rounds if pairs)


def partner(rank: int, pairs: tuple[tuple[int, int], ...]) -> int | None:
    return next((one if other == rank else other for one, other in pairs if rank in (one, other)), None)
