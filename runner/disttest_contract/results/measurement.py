"""The measurement of one collective in one case, over all ranks."""

from dataclasses import dataclass

from disttest_contract.text.json_values import PlainRecord

# What the suite `collectives` measures; a user's suite can use other names.
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
class Measurement(PlainRecord):
    """Seconds are for one call: the median of a rank's iterations, in `seconds` the median over the ranks.

    Bandwidths follow nccl-tests: `alg_bytes_per_second` is size over seconds. `bus_bandwidth_bytes_per_second` is
    that times the collective's factor, which makes different collectives and world sizes comparable with the hardware.
    """

    collective: str  # all_reduce, all_gather …
    dtype: str  # float32, bfloat16 …
    size_bytes: int
    ranks: int  # number of ranks that measured it
    iterations: int
    seconds: float
    fastest_rank_seconds: float
    slowest_rank_seconds: float
    slowest_rank: int
    alg_bytes_per_second: float
    bus_bandwidth_bytes_per_second: float
    wrong_elements: int  # of the timed buffers of all ranks

    @property
    def slowdown(self) -> float:
        """The slowest rank's time over the median."""
        return self.slowest_rank_seconds / self.seconds if self.seconds else 1.0
