"""How fast one collective was in one case, over all ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from disttest_contract.text import numbers

# What the suite `collectives` measures; a suite of one's own may call what it measures anything.
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send_recv",
    "send_recv_pair",
)
DTYPES = ("float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Seconds are for one call. A rank's number is the median of its iterations; `seconds` is the ranks' median.

    Bandwidths follow nccl-tests: `alg_bytes_per_second` is size over seconds, `bus_bytes_per_second` that times the
    collective's factor, which makes different collectives and world sizes comparable with the hardware.
    """

    collective: str  # all_reduce, all_gather …
    dtype: str  # float32, bfloat16 …
    size_bytes: int
    ranks: int  # how many have measured it
    iterations: int
    seconds: float
    fastest_rank_seconds: float
    slowest_rank_seconds: float
    slowest_rank: int
    alg_bytes_per_second: float
    bus_bytes_per_second: float
    wrong_elements: int  # of the timed buffers of all ranks

    @property
    def slowdown(self) -> float:
        """How many times longer the slowest rank took than the median one."""
        return self.slowest_rank_seconds / self.seconds if self.seconds else 1.0

    def to_json(self) -> dict[str, Any]:
        return {
            "collective": self.collective,
            "dtype": self.dtype,
            "sizeBytes": self.size_bytes,
            "ranks": self.ranks,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "fastestRankSeconds": self.fastest_rank_seconds,
            "slowestRankSeconds": self.slowest_rank_seconds,
            "slowestRank": self.slowest_rank,
            "algBytesPerSecond": self.alg_bytes_per_second,
            "busBytesPerSecond": self.bus_bytes_per_second,
            "wrongElements": self.wrong_elements,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            collective=str(data["collective"]),
            dtype=str(data["dtype"]),
            size_bytes=numbers.whole(data["sizeBytes"]),
            ranks=numbers.whole(data["ranks"]),
            iterations=numbers.whole(data["iterations"]),
            seconds=numbers.real(data["seconds"]),
            fastest_rank_seconds=numbers.real(data["fastestRankSeconds"]),
            slowest_rank_seconds=numbers.real(data["slowestRankSeconds"]),
            slowest_rank=numbers.whole(data["slowestRank"]),
            alg_bytes_per_second=numbers.real(data["algBytesPerSecond"]),
            bus_bytes_per_second=numbers.real(data["busBytesPerSecond"]),
            wrong_elements=numbers.whole(data["wrongElements"]),
        )
