"""The next step for users, by the reason of a run that is waiting or has ended."""

from collections.abc import Mapping
from typing import Any

from disttest_cli import fields
from disttest_contract.gang.plan import LOCAL_UID
from disttest_contract.outcomes import Reason
from disttest_contract.results.report import Report
from disttest_operator.core.api.conditions import ConditionType, GangReadyReason

READ_FAILURES = "Read the failures and run `disttest logs --failed`."
SAME_ELSEWHERE = (
    "To find out whether a node is at fault, run again on the same and on other nodes (template.spec.nodeSelector)."
)
ON_THE_NODE = (
    "Check the node in the message (kubectl describe node, kernel log, nvidia-smi). Cordon it if it is unhealthy."
)
REPAIR = "Cordon the node in the message and have it repaired (kubectl describe node, kernel log, nvidia-smi)."
NETWORK = "Check the network between the nodes, NetworkPolicies, and the log of the pod in the message."
FIX_AND_CREATE = "Fix the field in the message and create a new DistTest, because a spec is immutable."
FREE_GPUS = "Check which pods use the nodes (kubectl describe node) and what the quota allows"
AGAIN = "Run again: the tests are not at fault"
IMAGES = "Check that the images of operator and runner have the same version."
LEADER_LOG = "Check the log of the leader (`disttest logs`)."
SIGNALS = (
    "Usual causes: out of memory for SIGKILL, a full /dev/shm "
    "for SIGBUS, and the code, a library or the GPU for SIGSEGV."
)
HANG = "The stack of the rank that did not join the collective shows what it does instead (docs/results/hangs.md)."

ENDINGS: Mapping[Reason, str] = {
    Reason.ALL_CASES_PASSED: "Nothing: every case outside of quarantine passed.",
    Reason.CASES_FAILED: f"{READ_FAILURES} {SAME_ELSEWHERE}",
    Reason.CASES_CRASHED: f"Read the output of the rank that died first: `disttest logs --failed`. {SIGNALS}",
    Reason.CASES_HUNG: (
        f"{HANG} If all ranks joined, check the network and GPUs; if the case is only slow, increase "
        "timeouts.caseSeconds."
    ),
    Reason.NO_CASES_COLLECTED: "Check `select` and `files` of the suite, and the files in the image.",
    Reason.NO_CASES_PASSED: (
        "Check why the cases were skipped or did not run. Most of them require more ranks or another backend."
    ),
    Reason.COLLECTION_FAILED: "Fix the import error in the message. To reproduce it, import the module in this image.",
    Reason.COLLECTION_DIFFERS: "Change the tests so that their names do not depend on rank, host or time.",
    Reason.UNKNOWN_SUITE: "Create a new DistTest with a suite that the runner image contains.",
    Reason.INVALID_SPEC: FIX_AND_CREATE,
    Reason.QUEUE_TIMEOUT: (
        f"{FREE_GPUS}, the queue (kubectl get workloads) and the older run of the series. Or increase "
        "timeouts.queueSeconds."
    ),
    Reason.GANG_TIMEOUT: f"{FREE_GPUS}: all nodes are needed at once. Or increase timeouts.queueSeconds.",
    Reason.INSUFFICIENT_GPUS: "Request fewer GPUs, or another gpuResource. `disttest doctor` lists available GPUs.",
    Reason.RENDEZVOUS_TIMEOUT: f"{NETWORK} If nodes are only slow to start, increase timeouts.rendezvousSeconds.",
    Reason.GANG_LOST: NETWORK,
    Reason.GANG_FAILED_TO_START: "Check the log and the node of the pod in the message, and the network between nodes.",
    Reason.NODES_DIFFER: (
        "Install the same driver, GPUs and image on the node in the message as on the others, or exclude the node."
    ),
    Reason.DRIVER_TOO_OLD: (
        "Update the GPU driver of the nodes, or use an image with an older CUDA or with NVIDIA's package cuda-compat."
    ),
    Reason.WRONG_TRANSPORT: (
        "Check libibverbs or the network plugin of the image, the device plugin of the nodes, and the limit of locked "
        "memory (docs/operating/networks.md)."
    ),
    Reason.GPU_UNHEALTHY: REPAIR,
    Reason.SHARED_NODE: "Check node names and labels, or set `placement: Any`.",
    Reason.RUN_TIMEOUT: (
        "Check which cases were slow (`disttest describe`). Increase timeouts.runSeconds, or split the suites into "
        "several DistTests."
    ),
    Reason.TERMINATED: (
        "Check events for what terminated the pods, for example an autoscaler or a user. Then run again."
    ),
    Reason.IMAGE_UNAVAILABLE: "Check the name of the image and imagePullSecrets, and push the image if it is missing.",
    Reason.CONTAINER_CONFIG_ERROR: f"{FIX_AND_CREATE} The usual cause is a missing Secret, key or user.",
    Reason.CONTAINER_START_ERROR: (
        "Use an image with Python 3.11 or newer, torch and numpy for the CPU architecture of the nodes."
    ),
    Reason.REFERENCE_NOT_FOUND: "Create the object in the message in this namespace, then create the DistTest again.",
    Reason.PODS_FORBIDDEN: "Increase the quota, or change the field that admission or Pod Security rejects.",
    Reason.NAME_CONFLICT: "Use another name for the DistTest, or delete the object with this name.",
    Reason.OUT_OF_MEMORY: "Increase template.spec.resources.limits.memory, or reduce the memory of the running case.",
    Reason.DISRUPTED: f"{AGAIN}. Use a higher priority or another time.",
    Reason.SUSPENDED: f"{AGAIN}. With a higher priority, a queue is less likely to suspend it.",
    Reason.NODE_LOST: ON_THE_NODE,
    Reason.NODE_UNHEALTHY: REPAIR,
    Reason.POD_KILLED: f"{ON_THE_NODE} A usual cause is the kernel's out-of-memory killer.",
    Reason.POD_DELETED: f"Run again. {ON_THE_NODE}",
    Reason.NODE_REJECTED_POD: "Check the devices of the node (kubectl describe node, log of its device plugin).",
    Reason.JOB_DELETED: f"Check which user or controller deletes Jobs. {AGAIN}.",
    Reason.REPORT_MISSING: f"{LEADER_LOG} Check that kubelets keep at least 10 MiB of a log. {IMAGES}",
    Reason.REPORT_INVALID: f"{LEADER_LOG} Check whether a test wrote to it. {IMAGES}",
    Reason.RUNNER_ERROR: f"{LEADER_LOG} {IMAGES}",
    Reason.CANCELLED: "Nothing: spec.cancel ended the run. To run it, create the DistTest again.",
}

READ_ABOVE = "Read the failures in the report; --verbose shows the output of ranks."

# Differences for `disttest run`, where agents and ranks are processes of this machine.
LOCAL: Mapping[Reason, str] = {
    Reason.CASES_FAILED: f"{READ_ABOVE} --case ID --until-fail repeats one case until it fails.",
    Reason.CASES_CRASHED: f"{READ_ABOVE} The rank that ended first is the cause. {SIGNALS}",
    Reason.CASES_HUNG: f"{HANG} If the case is only slow, increase --case-timeout.",
    Reason.COLLECTION_FAILED: "Fix the import error or the case ID in the message.",
    Reason.NO_CASES_COLLECTED: "Check -k and the names of files and tests: pytest collects test_*.py and test_*.",
    Reason.UNKNOWN_SUITE: "Use one of the suites that `disttest run --help` lists.",
    Reason.INVALID_SPEC: "Fix the field in the message and run again.",
    Reason.RENDEZVOUS_TIMEOUT: "Check the load and memory of this machine: the processes did not start in time.",
    Reason.GANG_LOST: "Check why the agent's process ended, for example in dmesg: the kernel may be out of memory.",
    Reason.GANG_FAILED_TO_START: "Check the output of the processes (--verbose).",
    Reason.GPU_UNHEALTHY: "Check the GPUs of this machine (nvidia-smi, kernel log).",
    Reason.RUN_TIMEOUT: (
        "Check the stacks of the interrupted case in the report. If it is only slow, increase --timeout; to end slow "
        "cases earlier, set --case-timeout."
    ),
    Reason.TERMINATED: "Run again: the tests are not at fault, the processes were terminated.",
    Reason.OUT_OF_MEMORY: "Run fewer ranks (--ranks), or free memory on this machine.",
    Reason.RUNNER_ERROR: "Check the output of the processes (--verbose), and report the bug.",
    Reason.CANCELLED: "Nothing: Ctrl-C interrupted the run. The report shows the state of the interrupted case.",
}


# Reasons of the condition GangReady while it is not true; after a failed attempt, it has a Reason instead.
WAITS: Mapping[str, str] = {
    GangReadyReason.INSUFFICIENT_GPUS: ENDINGS[Reason.INSUFFICIENT_GPUS],
    GangReadyReason.UNSCHEDULABLE: f"{FREE_GPUS}. Also check nodeSelector, tolerations and taints.",
    GangReadyReason.SCHEDULING: "Wait: pods are being scheduled.",
    GangReadyReason.STARTING: "Wait: images are being pulled and containers created.",
    GangReadyReason.SUSPENDED: (
        "Wait for the queue (kubectl get workloads), or set spec.suspend to false if a user suspended the run."
    ),
    GangReadyReason.OLDER_RUN: "Wait, or cancel the older run of the series (spec.concurrencyPolicy is Wait).",
    GangReadyReason.RUNNING: "",
}
NO_OPERATOR = "If no operator processes the run within a minute, run `disttest doctor`."
ANOTHER_ATTEMPT = "Wait: DistTest retries with a new gang. The failed attempt is listed below."
UNKNOWN = "Read the message, and update the command line: it is older than the operator and has no advice."
SLOW = (
    "Bandwidth is below its threshold. Check link speeds, clocks and the node of the slowest rank "
    "(docs/operating/runbook.md, DistTestBandwidthBelowThreshold)."
)
FLAKY = "Flaky cases passed only in a rerun. If they always fail on the same node or rank, check the hardware."
SUSPECTS = "Cordon confirmed suspect nodes. To clear the others, run a DistTest on them: a pass clears a node."


def for_report(report: Report) -> str:
    if report.uid == LOCAL_UID and report.reason in LOCAL:
        return LOCAL[report.reason]
    return ENDINGS[report.reason]


def for_status(status: Mapping[str, Any]) -> list[str]:
    """Sentences for a DistTest's status, the most important first; empty if there is nothing to do."""
    if not status.get("verdict"):
        waits = _waiting(status)
        return [waits] if waits else []
    reason = fields.text(status.get("reason"))
    sentences = [ENDINGS[Reason(reason)] if reason in set(Reason) else UNKNOWN]
    if any(row.get("ok") is False for row in fields.rows(status.get("bandwidth"))):
        sentences.append(SLOW)
    if fields.rows(status.get("suspectNodes")):
        sentences.append(SUSPECTS)
    if fields.count(fields.mapping(status.get("cases")).get("flaky")):
        sentences.append(FLAKY)
    return sentences


def _waiting(status: Mapping[str, Any]) -> str:
    if not status.get("phase"):
        return NO_OPERATOR
    rows = fields.rows(status.get("conditions"))
    gang = next((row for row in rows if row.get("type") == ConditionType.GANG_READY.value), None)
    if gang is None or gang.get("status") == "True":
        return ""
    reason = fields.text(gang.get("reason"))
    if reason in WAITS:
        return WAITS[reason]
    return ANOTHER_ATTEMPT if reason in set(Reason) else UNKNOWN
