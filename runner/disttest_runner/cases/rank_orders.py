"""What a rank is given when it starts: its order, and the environment of its suite."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from disttest_contract.gang.plan import RunPlan, SuitePlan

MIN_COLLECT_SECONDS = 60.0  # to import, fork and collect


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOrder:
    """The order for one rank of one generation, sent by the agent."""

    rank: int
    local_rank: int
    node_index: int
    world_size: int
    ranks_per_node: int
    generation: int
    backend: str
    case_seconds: int
    store_host: str
    store_port: int
    suite: SuitePlan  # without environment and quarantine, which other processes need
    nccl_log: str = ""  # pattern of the files for NCCL's log, as NCCL_DEBUG_FILE

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        known = {name: data[name] for name in cls.__slots__}
        return cls(**known | {"suite": SuitePlan.from_json(data["suite"])})


def environment(plan: RunPlan, suite: SuitePlan) -> dict[str, str]:
    """Return the variables to set before a suite's modules are imported; those of the plan win."""
    own = {}
    if suite.builtin == "c10d-spawn":
        own = {"BACKEND": plan.backend, "WORLD_SIZE": str(plan.world_size)}
        own["INIT_METHOD"] = "file:///c10d-spawn"  # some of its tests need it; the store serves it
    return own | dict(suite.env)
