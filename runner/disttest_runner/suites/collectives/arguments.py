"""What `bandwidth` times, from the suite's environment, and how nccl-tests counts it. Does not import torch."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self, TypeVar

from disttest_contract.results.measurement import DTYPES as KNOWN_DTYPES

SIZES, DTYPES, ITERATIONS = "COLLECTIVES_SIZES", "COLLECTIVES_DTYPES", "COLLECTIVES_ITERATIONS"

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}
MAX_BYTES = 64 * GIB
MAX_VALUES = 16  # of one variable
MAX_ITERATIONS = 100_000
ITERATIONS_DEFAULT = 20

Value = TypeVar("Value")


class InvalidArgumentError(ValueError):
    """A variable of the suite's environment is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    sizes_bytes: tuple[int, ...]
    dtypes: tuple[str, ...]
    iterations: int = ITERATIONS_DEFAULT

    @classmethod
    def read(cls, environ: Mapping[str, str], backend: str) -> Self:
        """Parse the variables; the defaults depend on the backend. Raises InvalidArgumentError."""
        default = DEFAULTS.get(backend, SMOKE)
        return cls(
            sizes_bytes=_several(environ, SIZES, _size, default.sizes_bytes),
            dtypes=_several(environ, DTYPES, _dtype, default.dtypes),
            iterations=_iterations(environ[ITERATIONS]) if ITERATIONS in environ else default.iterations,
        )


SMOKE = Arguments(sizes_bytes=(4 * KIB, 128 * KIB, 2 * MIB), dtypes=("float32",))  # seconds on two cores
DEFAULTS = {
    "gloo": SMOKE,
    # below 1 GiB latency is still visible
    "nccl": Arguments(sizes_bytes=(MIB, 32 * MIB, GIB), dtypes=("float32", "bfloat16")),
}


def _several(
    environ: Mapping[str, str], name: str, read: Callable[[str], Value], default: tuple[Value, ...]
) -> tuple[Value, ...]:
    if name not in environ:
        return default
    words = [word.strip() for word in environ[name].split(",")]
    values = tuple(read(word) for word in words)
    if len(values) > MAX_VALUES:
        raise InvalidArgumentError(f"{name} has {len(values)} values, more than the limit of {MAX_VALUES}")
    twice = [word for place, word in enumerate(words) if values[place] in values[:place]]
    if twice:
        raise InvalidArgumentError(f"{name}={environ[name]!r} contains {twice[0]!r} twice. Remove the duplicate")
    return values


def _size(word: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?)", word)
    count = int(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < count <= MAX_BYTES:
        raise InvalidArgumentError(
            f"{SIZES} has the invalid size {word!r}. Write bytes from 1 to {MAX_BYTES // GIB}G, with K, M or G for "
            f"powers of 1024 and commas between them, as in {SIZES}=1M,64M,1G"
        )
    return count


def _dtype(word: str) -> str:
    if word not in KNOWN_DTYPES:
        raise InvalidArgumentError(
            f"{DTYPES} has the invalid type {word!r}. Write some of {', '.join(KNOWN_DTYPES)} with commas between them"
        )
    return word


def _iterations(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 0 < int(text) <= MAX_ITERATIONS:
        raise InvalidArgumentError(
            f"{ITERATIONS} is {text!r}. Write a number from 1 to {MAX_ITERATIONS}, as in {ITERATIONS}=20"
        )
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    bus_factor: Callable[[int], float]  # of the world size
    counts_all_ranks: bool = False  # whether the size is that of all ranks' parts or of one


def _without_own(world_size: int) -> float:
    """A rank's own part is not sent."""
    return (world_size - 1) / world_size


def _there_and_back(world_size: int) -> float:
    """Every part is collected, added up and distributed again."""
    return 2 * _without_own(world_size)


COUNTINGS: Mapping[str, Counting] = MappingProxyType(
    {
        "all_reduce": Counting(bus_factor=_there_and_back),
        "all_gather": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "reduce_scatter": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "all_to_all": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "gather": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "scatter": Counting(bus_factor=_without_own, counts_all_ranks=True),
        "broadcast": Counting(bus_factor=lambda _: 1.0),
        "reduce": Counting(bus_factor=lambda _: 1.0),
        "send_recv": Counting(bus_factor=lambda _: 1.0),
        "send_recv_pair": Counting(bus_factor=lambda _: 1.0),
    }
)


def elements_per_rank(collective: str, *, size_bytes: int, element_bytes: int, world_size: int) -> int:
    """Round up, so that bandwidth counts no bytes that were not moved."""
    parts = world_size if COUNTINGS[collective].counts_all_ranks else 1
    return -(-size_bytes // (element_bytes * parts))


def pairings(world_size: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the pairs of a ring in rounds of disjoint pairs: one for two ranks, two for even worlds, else three."""
    links = [(rank, (rank + 1) % world_size) for rank in range(world_size if world_size > 2 else 1)]
    end = world_size - 1
    rounds = [links[:end:2], links[1:end:2], links[end:]]
    if world_size % 2 == 0:
        rounds = [rounds[0], rounds[1] + rounds[2]]
    return tuple(tuple(pairs) for pairs in rounds if pairs)


def partner_of(rank: int, pairs: tuple[tuple[int, int], ...]) -> int | None:
    return next((one if other == rank else other for one, other in pairs if rank in (one, other)), None)
