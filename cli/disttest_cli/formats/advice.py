"""What users should do about a run that waits or has ended, by its reason."""

from collections.abc import Mapping
from typing import Any

from disttest_cli import fields
from disttest_contract.gang.plan import LOCAL_UID
from disttest_contract.outcomes import Reason
from disttest_contract.results.report import Report
from disttest_operator.core.api.conditions import ConditionType, GangReadyReason

READ_FAILURES = "Read the failures below, then `disttest logs --failed`."
SAME_ELSEWHERE = (
    "Run it again on these nodes and on others (template.spec.nodeSelector): red on both is the code or the image, "
    "red on one node only is that node."
)
ON_THE_NODE = "Look at the node that the message names (kubectl describe node, its kernel log, nvidia-smi); cordon it."
NETWORK = "Look at the network between the nodes, at NetworkPolicies, and at the log of the pod that is named."
FIX_AND_CREATE = "Mend what the message names and create the DistTest again: a spec is frozen once it is created."
WHO_HOLDS_GPUS = "Find out who holds the nodes (kubectl describe node), and what quota allows"
AGAIN = "Nothing is wrong with the tests: run again"
IMAGES = "do the images of operator and runner belong together?"

ENDINGS: Mapping[Reason, str] = {
    Reason.ALL_CASES_PASSED: "Nothing: every case passed, but for those in quarantine.",
    Reason.CASES_FAILED: f"{READ_FAILURES} {SAME_ELSEWHERE}",
    Reason.CASES_CRASHED: (
        "Read what the rank wrote that died first (`disttest logs --failed`); the others are its victims. SIGKILL is "
        "mostly memory, SIGBUS mostly /dev/shm, SIGSEGV the code, a library or the GPU."
    ),
    Reason.CASES_HUNG: (
        "Begin with the rank that never joined the collective: its stack in the report says what it does instead "
        "(docs/hangs.md). If all have joined, suspect the network or a GPU; if the case is only slow, raise "
        "timeouts.caseSeconds."
    ),
    Reason.NOTHING_COLLECTED: "No case matches: look at `select` and `files` of the suite, and at what the image has.",
    Reason.NOTHING_PASSED: "All cases were skipped or not run: read why; most want more ranks or another backend.",
    Reason.COLLECTION_FAILED: "The suite cannot be imported in this image: read the message, and try the import there.",
    Reason.COLLECTION_DIFFERS: "Ranks must collect the same cases: none may depend on rank, host or time.",
    Reason.UNKNOWN_SUITE: f"The runner's image does not have this suite. {FIX_AND_CREATE}",
    Reason.INVALID_SPEC: FIX_AND_CREATE,
    Reason.QUEUE_TIMEOUT: (
        f"{WHO_HOLDS_GPUS}; look at the queue (kubectl get workloads) and at the run before it, or raise "
        "timeouts.queueSeconds."
    ),
    Reason.GANG_TIMEOUT: f"{WHO_HOLDS_GPUS}; all nodes are needed at once. Or raise timeouts.queueSeconds.",
    Reason.TOO_FEW_GPUS: "Ask for fewer nodes or GPUs, or another gpuResource: `disttest doctor` shows what is there.",
    Reason.RENDEZVOUS_TIMEOUT: f"{NETWORK} If nodes are only slow to start, raise timeouts.joinSeconds.",
    Reason.GANG_LOST: NETWORK,
    Reason.GANG_FAILED_TO_START: f"Read the log of the pod that is named: ranks did not start. {NETWORK}",
    Reason.NODES_DIFFER: "Bring driver, GPUs and image of that node to those of the others, or keep the run off it.",
    Reason.GPU_BROKEN: f"{ON_THE_NODE} Have it repaired before it is used again.",
    Reason.SHARED_NODE: "Two pods were on one node: look at node names and labels, or set `placement: Any`.",
    Reason.RUN_DEADLINE: "See where the time went; then raise timeouts.runSeconds, or make several DistTests.",
    Reason.TERMINATED: "Somebody told the pods to end: find out who (events, autoscaler, a person), and run again.",
    Reason.IMAGE_UNAVAILABLE: "Correct the image's name, push it, or give the pods imagePullSecrets.",
    Reason.CONTAINER_CONFIG: f"{FIX_AND_CREATE} Often a Secret, a key or a user that is not there.",
    Reason.CONTAINER_START: "Look at the image: it needs Python 3 and torch, for this kind of processor.",
    Reason.REFERENCE_MISSING: "Create what the message names in this namespace, then create the DistTest again.",
    Reason.PODS_REFUSED: "Raise the quota, or change what admission or PodSecurity refuses: the message has its words.",
    Reason.NAME_TAKEN: "An object of that name is somebody else's: give the DistTest another name, or delete that one.",
    Reason.OUT_OF_MEMORY: "Raise template.spec.resources.limits.memory, or look at what the case in flight takes.",
    Reason.DISRUPTED: f"{AGAIN}, with a higher priority or at another hour.",
    Reason.SUSPENDED: f"{AGAIN} when the queue has room; more priority keeps its nodes.",
    Reason.NODE_LOST: ON_THE_NODE,
    Reason.NODE_UNHEALTHY: f"{ON_THE_NODE} Have it repaired before it is used again.",
    Reason.POD_KILLED: f"{ON_THE_NODE} Something outside of Kubernetes ended the pod, often the kernel for memory.",
    Reason.POD_MISSING: f"Run again. {ON_THE_NODE}",
    Reason.NODE_REFUSED_POD: "Look at the devices of the node (kubectl describe node, the log of its device plugin).",
    Reason.JOB_MISSING: f"Find out who deletes Jobs. {AGAIN}.",
    Reason.REPORT_MISSING: f"Read the leader's log (`disttest logs`). Do the kubelets keep 10 MiB of it, and {IMAGES}",
    Reason.REPORT_INVALID: f"Read the leader's log (`disttest logs`): did a test write into it, and {IMAGES}",
    Reason.RUNNER_ERROR: f"Read the leader's log (`disttest logs`); {IMAGES}",
    Reason.CANCELLED: "Nothing: spec.cancel ended it. Create the DistTest again to run it.",
}

READ_ABOVE = "Read the failures in the report; --verbose shows what ranks write."

# Differences for `disttest run`, whose agents and ranks are processes of this machine.
LOCAL: Mapping[Reason, str] = {
    Reason.CASES_FAILED: f"{READ_ABOVE} --case ID --until-fail repeats one case until it fails.",
    Reason.CASES_CRASHED: (
        f"{READ_ABOVE} The rank that ended first is the cause; the others are its victims. SIGKILL is mostly memory, "
        "SIGBUS mostly /dev/shm, SIGSEGV the code, a library or the GPU."
    ),
    Reason.CASES_HUNG: (
        "Begin with the rank that never joined the collective: its stack in the report says what it does instead "
        "(docs/hangs.md). If the case is only slow, raise --case-timeout."
    ),
    Reason.COLLECTION_FAILED: "Fix what the message names: a case that does not exist, or an import that fails.",
    Reason.NOTHING_COLLECTED: "Check -k and the names of files and tests: pytest collects test_*.py and test_*.",
    Reason.UNKNOWN_SUITE: "Name one of the suites that `disttest run --help` lists.",
    Reason.INVALID_SPEC: "Correct what the message names and run again.",
    Reason.RENDEZVOUS_TIMEOUT: "The processes did not start in time: look at the load and memory of this machine.",
    Reason.GANG_LOST: "An agent's process ended: look for what killed it, often the kernel for memory (dmesg).",
    Reason.GANG_FAILED_TO_START: "Read what the processes wrote (--verbose): ranks did not start.",
    Reason.GPU_BROKEN: "Look at the GPUs of this machine (nvidia-smi, the kernel log).",
    Reason.RUN_DEADLINE: (
        "If a case was still running, its stacks in the report say where. If it is only slow, raise --timeout; "
        "--case-timeout ends a case that takes too long, and the others run."
    ),
    Reason.TERMINATED: "Nothing is wrong with the tests: the processes were terminated. Run again.",
    Reason.OUT_OF_MEMORY: "Run fewer ranks (--ranks), or free memory on this machine.",
    Reason.RUNNER_ERROR: "Read what the processes wrote (--verbose), and report it.",
    Reason.CANCELLED: "Nothing: it was interrupted (Ctrl-C). The report has what the case in flight was doing.",
}


# Reasons of the condition GangReady while it is not true; an ended attempt sets a Reason instead.
WAITS: Mapping[str, str] = {
    GangReadyReason.TOO_FEW_GPUS: ENDINGS[Reason.TOO_FEW_GPUS],
    GangReadyReason.UNSCHEDULABLE: f"{WHO_HOLDS_GPUS}; nodeSelector, tolerations and taints decide too.",
    GangReadyReason.SCHEDULING: "Wait: nodes are being looked for.",
    GangReadyReason.STARTING: "Wait: images are being pulled and containers made.",
    GangReadyReason.SUSPENDED: (
        "Wait for the queue (kubectl get workloads), or set spec.suspend to false if a person suspended it."
    ),
    GangReadyReason.OLDER_RUN: "Wait, or cancel the older run: spec.concurrencyPolicy is Wait.",
    GangReadyReason.RUNNING: "",
}
NO_OPERATOR = "If this stays so for a minute: `disttest doctor` says whether an operator is there."
ANOTHER_ATTEMPT = "Another gang is made by itself; what ended the one before is below."
UNKNOWN = "The message says what happened; this command line is older than the operator and knows no more."
SLOW = (
    "Bandwidth below its threshold: look at link speeds, clocks and the slowest rank's node (docs/runbook.md, "
    "DistTestBandwidthBelowReference)."
)
FLAKY = "Flaky cases passed only when they were tried again: always the same node or rank is a weak link, not a test."
SUSPECTS = "Cordon confirmed suspect nodes; let a run of one node go to the others: a pass clears them."


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
