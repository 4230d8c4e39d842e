"""What is known of a node before any rank starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract.text import numbers

UNLIMITED = -1  # of a limit in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Sizes are bytes, UNLIMITED where there is no limit. A clock's offset is this node's time minus the leader's.

    `gpus` holds a product name each, in NVML's order, of those that the pod may use. `cuda_error` is what initialising
    CUDA in a process of its own came to, empty if it worked or was not tried.
    """

    node_name: str = ""
    gpus: tuple[str, ...] = ()
    shares_gpus: bool = False  # NCCL was told to put several ranks on one GPU
    driver: str = ""
    cuda_driver: str = ""  # the newest CUDA that the driver knows
    cuda_error: str = ""
    shm_bytes: int = 0
    memlock_bytes: int = 0
    cpus: int = 0
    memory_bytes: int = 0
    kernel: str = ""
    clock_offset_seconds: float | None = None
    round_trip_seconds: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)  # torch, cuda, nccl, python …

    def to_json(self) -> dict[str, Any]:
        return {
            "nodeName": self.node_name,
            "gpus": list(self.gpus),
            "sharesGpus": self.shares_gpus,
            "driver": self.driver,
            "cudaDriver": self.cuda_driver,
            "cudaError": self.cuda_error,
            "shmBytes": self.shm_bytes,
            "memlockBytes": self.memlock_bytes,
            "cpus": self.cpus,
            "memoryBytes": self.memory_bytes,
            "kernel": self.kernel,
            "clockOffsetSeconds": self.clock_offset_seconds,
            "roundTripSeconds": self.round_trip_seconds,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises TypeError, ValueError or AttributeError for values of other kinds; what is missing is unknown."""
        return cls(
            node_name=str(data.get("nodeName", "")),
            gpus=tuple(str(gpu) for gpu in data.get("gpus", ())),
            shares_gpus=bool(data.get("sharesGpus", False)),
            driver=str(data.get("driver", "")),
            cuda_driver=str(data.get("cudaDriver", "")),
            cuda_error=str(data.get("cudaError", "")),
            shm_bytes=numbers.whole(data.get("shmBytes", 0)),
            memlock_bytes=numbers.whole(data.get("memlockBytes", 0)),
            cpus=numbers.whole(data.get("cpus", 0)),
            memory_bytes=numbers.whole(data.get("memoryBytes", 0)),
            kernel=str(data.get("kernel", "")),
            clock_offset_seconds=numbers.maybe(data.get("clockOffsetSeconds")),
            round_trip_seconds=numbers.maybe(data.get("roundTripSeconds")),
            versions={str(key): str(value) for key, value in data.get("versions", {}).items()},
        )
