"""What somebody who is called at night should do first, by the reason of the verdict."""

from collections.abc import Mapping

from disttest_contract.outcomes import Reason

ADVICE: Mapping[Reason, str] = {
    Reason.ALL_CASES_PASSED: "Nothing to do.",
    Reason.CASES_FAILED: (
        "Read the first failure. If one node is named again and again, run the series on other nodes: "
        "what fails there too is the code, what does not is the node."
    ),
    Reason.CASES_CRASHED: (
        "Read the stack of the rank that died first; the others are its victims. "
        "SIGKILL is mostly memory, SIGBUS mostly /dev/shm, SIGSEGV the code, a library or the GPU."
    ),
    Reason.CASES_HUNG: (
        "Look at the rank that has not joined the collective: its stack says what it does instead. "
        "If all have joined, suspect the network or a GPU, and read NCCL's own account."
    ),
    Reason.NOTHING_COLLECTED: "Check the suite's files and its `select`: no case was found, so nothing was tested.",
    Reason.NOTHING_PASSED: "Read why cases were skipped: nothing was tested.",
    Reason.COLLECTION_FAILED: "Mend the import error in the suite's message; nothing of this suite was run.",
    Reason.COLLECTION_DIFFERS: "Ranks see different cases: make parametrisation the same on every rank and node.",
    Reason.RENDEZVOUS_TIMEOUT: "Look at the pods that did not come, and at the network between the nodes.",
    Reason.GANG_LOST: "Look at the node that went away: its events, its kernel log, its GPUs.",
    Reason.GANG_FAILED_TO_START: "Look at the logs of the node that is named: its ranks could not be started.",
    Reason.NODES_DIFFER: "Make the nodes alike: under Environment is what differs.",
    Reason.GPU_BROKEN: "Drain the node that is named, and look at its GPUs.",
    Reason.SHARED_NODE: "Two pods were on one node: check the labels and the affinity of the pods.",
    Reason.RUN_DEADLINE: "Look at the slowest cases: give the run more time, or split its suites.",
    Reason.TERMINATED: "Something ended the pods from outside: look at evictions, drains and the queue.",
    Reason.CANCELLED: "Nothing to do: somebody wanted it to end.",
}
OTHERWISE = "The message says what happened; docs/runbook.md has more on each reason."


def advice(reason: Reason) -> str:
    return ADVICE.get(reason, OTHERWISE)
