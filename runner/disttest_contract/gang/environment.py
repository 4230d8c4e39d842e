"""The environment variables that give a pod its plan and its identity."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from disttest_contract.gang.plan import InvalidPlanError, RunPlan

PLAN = "DISTTEST_PLAN"  # RunPlan as JSON
NONCE = "DISTTEST_NONCE"  # secret of the attempt, for joining and for the report's frames; never passed to ranks
NODE_INDEX = "JOB_COMPLETION_INDEX"  # set by the Job controller
NODE_NAME = "DISTTEST_NODE_NAME"
POD_NAME = "DISTTEST_POD_NAME"
POD_UID = "DISTTEST_POD_UID"
LEADER = "DISTTEST_LEADER"  # host:port of the leader
TERMINATION_LOG = "DISTTEST_TERMINATION_LOG"  # path of the termination message file
SILENCE_SECONDS = "DISTTEST_SILENCE_SECONDS"  # after which agent or leader count as lost; optional
LOG_IS_KEPT = "DISTTEST_LOG_IS_KEPT"  # "no" if the log is read while it is written and not stored; optional

SILENCE_SECONDS_DEFAULT = 25.0  # what the kernel takes to notice a node without power
TERMINATION_LOG_DEFAULT = "/dev/termination-log"
LEADER_PORT = 29400

# Of a run with gpusPerNode 0: hides the GPUs of the node, which are for other pods, from torch.
WITHOUT_GPUS = MappingProxyType({"CUDA_VISIBLE_DEVICES": ""})
# NVIDIA's container runtime adds the GPUs that this variable lists, even those that no device plugin allocated. CUDA
# images set it to "all". A device plugin sets it for its containers; a value in the pod's manifest would replace that.
GPUS_TO_ADD = "NVIDIA_VISIBLE_DEVICES"
NO_GPUS_TO_ADD = MappingProxyType({GPUS_TO_ADD: "void"})  # the runtime does nothing

# Set by the runner for each rank, or by Kubernetes and torchelastic: users must not set these.
RESERVED = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}
)
RESERVED_PREFIXES = ("DISTTEST_", "PET_", "TORCHELASTIC_", "JOB_COMPLETION_")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnvironment:
    """The identity and the plan of an agent."""

    plan: RunPlan
    nonce: str
    node_index: int
    node_name: str
    pod_name: str
    pod_uid: str
    leader_host: str
    leader_port: int
    termination_log: str
    silence_seconds: float = SILENCE_SECONDS_DEFAULT
    log_is_kept: bool = True

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Parse the variables. Raises InvalidPlanError, which names the one that is wrong."""

        def need(name: str) -> str:
            if not environ.get(name):
                raise InvalidPlanError(
                    f"environment variable {name} is missing. This program runs only in a pod of a DistTest"
                )
            return environ[name]

        plan = RunPlan.from_json(need(PLAN))
        host, colon, port = need(LEADER).rpartition(":")
        index = need(NODE_INDEX)
        if not index.isdecimal() or int(index) >= plan.nodes:
            raise InvalidPlanError(f"{NODE_INDEX}={index!r} is not a node index below {plan.nodes}")
        if not colon or not port.isdecimal():
            raise InvalidPlanError(f"{LEADER}={environ[LEADER]!r} is not host:port")
        silence = environ.get(SILENCE_SECONDS) or str(SILENCE_SECONDS_DEFAULT)
        if not silence.replace(".", "", 1).isdecimal() or float(silence) <= 0:
            raise InvalidPlanError(f"{SILENCE_SECONDS}={silence!r} is not a number of seconds above 0")
        return cls(
            plan=plan,
            nonce=need(NONCE),
            node_index=int(index),
            node_name=need(NODE_NAME),
            pod_name=need(POD_NAME),
            pod_uid=need(POD_UID),
            leader_host=host,
            leader_port=int(port),
            termination_log=environ.get(TERMINATION_LOG) or TERMINATION_LOG_DEFAULT,
            silence_seconds=float(silence),
            log_is_kept=environ.get(LOG_IS_KEPT) != "no",
        )


def is_reserved(name: str) -> bool:
    return name in RESERVED or name.startswith(RESERVED_PREFIXES)
