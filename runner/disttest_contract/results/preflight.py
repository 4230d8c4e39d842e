"""Facts about a node, collected before any rank starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract.text import numbers

UNLIMITED = -1  # of a limit in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Sizes are bytes, or UNLIMITED. A clock's offset is this node's time minus the leader's.

    `gpus` are the product names of the GPUs that the pod may use, in NVML's order. `cuda_error` is the error of
    initialising CUDA in a separate process; empty if it worked or was not tried.
    """

    node_name: str = ""
    gpus: tuple[str, ...] = ()
    shares_gpus: bool = False  # NCCL is configured to put several ranks on one GPU
    driver: str = ""
    cuda_driver: str = ""  # the newest CUDA that the driver supports
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
        data = {numbers.camel_case(name): getattr(self, name) for name in self.__slots__}
        return data | {"gpus": list(self.gpus), "versions": dict(self.versions)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises TypeError, ValueError or AttributeError for values of other types; missing ones are unknown."""
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
            clock_offset_seconds=numbers.optional_real(data.get("clockOffsetSeconds")),
            round_trip_seconds=numbers.optional_real(data.get("roundTripSeconds")),
            versions={str(key): str(value) for key, value in data.get("versions", {}).items()},
        )
