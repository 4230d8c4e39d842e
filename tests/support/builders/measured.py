"""Measurements for unit tests: each builder gives the usual, and takes what differs."""

import dataclasses
from typing import Any

from disttest_contract.outcomes import Outcome
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult
from disttest_contract.results.thresholds import Threshold

GIB = 1 << 30
GB = 10**9
ALL_REDUCE = Measurement(
    collective="all_reduce",
    dtype="float32",
    size_bytes=GIB,
    ranks=4,
    iterations=20,
    seconds=0.00451,
    fastest_rank_seconds=0.0045,
    slowest_rank_seconds=0.00902,
    slowest_rank=3,
    alg_bytes_per_second=238.08e9,
    bus_bandwidth_bytes_per_second=357.1e9,
    wrong_elements=0,
)


def a_measurement(bus: float = 400 * GB, **changes: Any) -> Measurement:
    return dataclasses.replace(ALL_REDUCE, bus_bandwidth_bytes_per_second=bus, **changes)


def a_threshold(bus: int = 400 * GB, **changes: Any) -> Threshold:
    usual: dict[str, Any] = {"collective": "all_reduce", "size_bytes": GIB, "min_bus_bandwidth_bytes_per_second": bus}
    return Threshold(**usual | changes)


def a_measured_case(*measurements: Measurement, name: str = "test_b", **changes: Any) -> CaseResult:
    usual: dict[str, Any] = {"outcome": Outcome.PASSED, "seconds": 1.0, "measurements": measurements}
    return CaseResult(id=f"b.py::{name}", **usual | changes)
