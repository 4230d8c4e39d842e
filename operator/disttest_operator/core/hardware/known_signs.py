"""Built-in rules for signs of broken hardware, in the form of users' rules, which are tried first.

Signs that a faulty test can cause too are omitted: Xid 13, 31, 43 and 45, "unspecified launch failure", "illegal memory
access", NCCL's "unhandled system error" and "unhandled cuda error", and NVLink SHARP's "out of memory", when a test has
too many groups. So are signs that follow from the end of a peer: "ncclRemoteError", timeouts of torch's watchdog, and
NET/IB's "Got completion from peer …" with status 5, 10 or 12.
"""

from typing import Any

from disttest_contract.outcomes import Reason
from disttest_operator.core.hardware import user_rules

# The driver writes them to the kernel's log, which pods rarely see.
FATAL_XIDS = (48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143)

ADAPTER_FAILED = "a network adapter failed (check it on the node)"

LOG_LINES = (
    (rf"NVRM: Xid \([^)]{{1,80}}\): ({'|'.join(map(str, FATAL_XIDS))}),", "the driver reports a fatal GPU error"),
    (r"GPU has fallen off the bus", "a GPU is no longer on the bus (reboot the node, or replace the GPU)"),
    (r"\bGPU is lost\b", "a GPU is lost (reboot the node, or replace the GPU)"),  # NVML
    # Texts of CUDA: ECCUncorrectable, NvlinkUncorrectable, SystemNotReady.
    (
        r"uncorrectable ECC error encountered",
        "the memory of a GPU is faulty (check its ECC counts, or replace the GPU)",
    ),
    (r"uncorrectable NVLink error detected", "NVLink is faulty (check links and switches of the node)"),
    (r"(?i)CUDA.{0,80}system not yet initialized", "CUDA waits for the fabric manager (check it on the node)"),
    # 2 is "out of memory".
    (
        r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory .{0,120}CUDA error (1|[3-9]|\d{2,4})\b",
        "NVLink SHARP cannot be used (check the fabric manager and NVSwitches, or set NCCL_NVLS_ENABLE=0)",
    ),
)
NETWORK_LINES = (
    # Only an event of the adapter itself has the colon there: others name a queue.
    (r"NET/IB ?: .{0,80}(async fatal event: |local catastrophic error)", ADAPTER_FAILED, True),
    (
        r"NET/IB ?: .{0,80}async event ?: port error",
        "a network port lost its link (check adapter, cable, switch)",
        True,
    ),
    (r"mlx5_core .{0,80}(Fatal error \d{1,3} detected|device's health compromised)", ADAPTER_FAILED, True),
    (r"NET/IB ?: .{0,80}local work queue catastrophic error", "a queue of a network adapter failed", False),
    # 4: the protection of local memory
    (
        r"NET/IB ?: Got completion from peer .{1,80} with (error |status=(IBV_WC_LOC_PROT_ERR\()?)4\b",
        "a network adapter cannot access memory (check GPUDirect RDMA on the nodes)",
        False,
    ),
    # The peer, or the routes to it, may be at fault. ibv_reg_mr is omitted: it may fail because of the memlock limit.
    (
        r"Call to ibv_(modify_qp|query_port|open_device)\w{0,20} failed",
        "an InfiniBand call failed (check network adapters and routes)",
        False,
    ),
)

GPU_CONDITIONS = (
    # NVSentinel sets these for fatal errors only.
    *((name, "True") for name in ("GpuMemWatch", "GpuPcieWatch", "GpuNvlinkWatch", "GpuSmWatch", "GpuMcuWatch")),
    *((name, "True") for name in ("GpuPmuWatch", "GpuDriverWatch", "GpuInforomWatch", "GpuNvswitchFatalWatch")),
    *((name, "True") for name in ("SysLogsXIDError", "SysLogsSXIDError", "SysLogsGPUFallenOff")),
    ("GPUMissing", "True"),  # node-problem-detector on AKS; a faulty test can cause its XIDErrors
    ("NVLinkStatusInactive", "True"),  # the same
    ("AcceleratedHardwareReady", "False"),  # the node monitoring agent of EKS
    ("NebiusGPUError", "True"),  # node-problem-detector on Nebius
)
NODE_CONDITIONS = (
    ("KernelDeadlock", "True"),  # node-problem-detector anywhere
    ("ReadonlyFilesystem", "True"),  # the same
    ("IBLinkFlapping", "True"),  # node-problem-detector on AKS
)


def _line(pattern: str, message: str, reason: Reason, *, blame: bool = True) -> dict[str, Any]:
    return {"logPattern": pattern, "reason": reason.value, "blame": blame, "message": message}


def _condition(name: str, status: str, reason: Reason) -> dict[str, Any]:
    message = "the node is unhealthy" if reason is Reason.NODE_UNHEALTHY else "a GPU of the node is unhealthy"
    condition = {"type": name, "status": status}
    return {"nodeCondition": condition, "reason": reason.value, "blame": True, "message": message}


# Lines first: they are from the attempt, while a condition may have another cause.
KNOWN = user_rules.build(
    [
        *(_line(pattern, message, Reason.GPU_UNHEALTHY) for pattern, message in LOG_LINES),
        *(_line(pattern, message, Reason.NODE_UNHEALTHY, blame=blame) for pattern, message, blame in NETWORK_LINES),
        *(_condition(name, status, Reason.GPU_UNHEALTHY) for name, status in GPU_CONDITIONS),
        *(_condition(name, status, Reason.NODE_UNHEALTHY) for name, status in NODE_CONDITIONS),
    ]
)
