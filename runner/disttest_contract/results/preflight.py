"""Facts about a node, collected before any rank starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from disttest_contract.text.json_values import PlainRecord

UNLIMITED = -1  # of a limit in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts(PlainRecord):
    """Sizes are bytes, or UNLIMITED. A clock's offset is this node's time minus the leader's.

    `gpus` are the product names of the GPUs that the pod may use. `cuda_driver` is the newest CUDA that the driver
    supports, or the compatibility package of the image. `cuda_error` is the error of initializing CUDA in a separate
    process; empty if it worked or was not tried. `busy_gpus` have memory in use, such as `GPU 3: 70.0 GiB`.
    """

    node_name: str = ""
    gpus: tuple[str, ...] = ()
    shares_gpus: bool = False  # NCCL is configured to put several ranks on one GPU
    driver: str = ""
    cuda_driver: str = ""
    cuda_error: str = ""
    busy_gpus: tuple[str, ...] = ()
    shm_bytes: int = 0
    memlock_bytes: int = 0
    cpus: int = 0
    memory_bytes: int = 0
    kernel: str = ""
    clock_offset_seconds: float | None = None
    round_trip_seconds: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)  # torch, cuda, nccl, python …
