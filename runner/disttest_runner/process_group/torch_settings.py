"""The settings of NCCL and torch's process groups, each with its reason. A value of the user or the image wins.

They are environment variables that torch reads when a process makes its first group. Torch 2.7 to 2.13 reads all these
names. Defaults of torch/csrc/distributed/c10d:

    TORCH_NCCL_ASYNC_ERROR_HANDLING   3
    TORCH_NCCL_RETHROW_CUDA_ERRORS    1
    TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC  480
    TORCH_NCCL_DUMP_ON_TIMEOUT        0 in older versions, 1 in 2.13
    TORCH_NCCL_TRACE_BUFFER_SIZE      0 up to 2.10, 2000 from 2.11 on; TORCH_FR_BUFFER_SIZE from 2.8 on
"""

from collections.abc import Mapping, MutableMapping

from disttest_contract.gang.plan import SuitePlan
from disttest_runner.process_group import version_gates

ALLOWS_TF32 = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"  # torch reads it when it is imported; NGC images set it
RECORDER_ENTRIES = "2000"
# Older versions of torch read only the second.
RECORDER_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
HEARTBEAT_SECONDS = 480  # torch's default
BEYOND_CASE_SECONDS = 180


# A setting that only limits what another one requests: a user who sets the other chooses this one too.
LIMITS = {"NCCL_DEBUG_SUBSYS": "NCCL_DEBUG"}


def wanted(case_seconds: int, *, records_gloo: bool, nccl_log: str) -> dict[str, str]:
    """Return the values that ranks use if nothing else is set, by name.

    `records_gloo`: torch's flight recorder records gloo too, and reads the newer name. `nccl_log`: pattern of the files
    for NCCL's log; empty if the rank has none.
    """
    return {
        **_nccl_log(nccl_log),
        # A kernel never ends if a peer or its network is lost: torch ends the process, which fails the
        # case at once. This is torch's default; 0 would leave the case to its deadline.
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
        # The watchdog must not end the process for a CUDA error: the rank synchronizes its devices when a case ends,
        # reports the error with the case, and is replaced. By default process and error end with SIGABRT.
        "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
        # The deadline of a case, which names ranks, comes before torch ends a process whose watchdog is stuck.
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": str(max(HEARTBEAT_SECONDS, case_seconds + BEYOND_CASE_SECONDS)),
        # For groups whose own timeout is shorter than a case's. Older versions of torch do not by default.
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        # The flight recorder shows which collective a rank waits in. Older versions of torch do not record by
        # default, and newer ones warn about the older name.
        RECORDER_SIZES[0 if records_gloo else 1]: RECORDER_ENTRIES,
    }


def _nccl_log(pattern: str) -> dict[str, str]:
    """NCCL prints why a call failed (its default is to print nothing), and with INFO which network it chose.

    It writes INFO lines of these subsystems only when it creates or connects a communicator. They go to a file, since
    they would fill the log of the container; the agent copies warnings from there.
    """
    if not pattern:
        return {"NCCL_DEBUG": "WARN"}
    return {"NCCL_DEBUG_SUBSYS": "INIT,ENV", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": pattern}


def apply(environ: MutableMapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """Set what is not set. Return a sentence about each other value."""
    kept = []
    for name, value in settings.items():
        names = RECORDER_SIZES if name in RECORDER_SIZES else (name,)
        found = next((one for one in names if one in environ), None)
        if found is None:
            if LIMITS.get(name, name) not in environ:
                environ[name] = value
        elif environ[found] != value:
            kept.append(f"{found}={environ[found]} is set. DistTest's value is {value}.")
    return kept


def of_versions(nccl: str) -> dict[str, str]:
    """Return the values that only some versions need. `nccl` is NCCL's, empty if the backend does not use it.

    Without this one, older versions end with an error in pods, whose seccomp profile they do not check. NCCL then uses
    /dev/shm between the GPUs of a node without NVLink.
    """
    return {"NCCL_CUMEM_HOST_ENABLE": "0"} if version_gates.assumes_host_buffers(nccl) else {}


def different(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the values that win against these settings, and whether TF32 is allowed. Call it after `apply`."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        names = RECORDER_SIZES if name in RECORDER_SIZES else (name,)
        found |= {one: environ[one] for one in names if one in environ and environ[one] != value}
    return found | ({ALLOWS_TF32: environ[ALLOWS_TF32]} if ALLOWS_TF32 in environ else {})


def of_suite(found: Mapping[str, str], suite: SuitePlan) -> dict[str, str]:
    """Name the suite in settings that only its environment has: others have the image's."""
    own = dict(suite.env)
    return {f"{name} ({suite.name})" if name in own else name: value for name, value in found.items()}
