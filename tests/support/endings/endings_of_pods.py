"""Endings that pods, their containers and last words tell."""

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.verdict.rule import Retry
from tests.support.builders.runs import (
    a_bad_report,
    a_job,
    a_pod,
    a_summary,
    a_waiting_pod,
    an_ended_pod,
    an_unscheduled_pod,
    at,
    evidence,
    found,
)
from tests.support.endings.ending_row import (
    ALONE,
    ENDED,
    GANG_LOST,
    GPUS,
    INVALID,
    LOST,
    OWN_IMAGE,
    REFUSAL,
    SMALL_NODES,
    EndingRow,
)

OF_PODS = {
    "node refused the pod": EndingRow(
        evidence=evidence(
            a_pod(0), a_pod(1, phase="Failed", reason="UnexpectedAdmissionError", started=None, ending_since=at(6)),
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.NODE_REJECTED_POD, words="UnexpectedAdmissionError",
        retry=Retry.CHARGED, blamed=("node1",),
    ),
    "out of a resource": EndingRow(
        evidence=evidence(a_pod(0, phase="Failed", reason="OutOfnvidia.com/gpu", started=None, ending_since=at(6))),
        verdict=Verdict.INFRA_FAILED, reason=Reason.NODE_REJECTED_POD, words="OutOfnvidia.com/gpu",
        retry=Retry.CHARGED, blamed=("node0",),
    ),
    "out of memory in a case": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 137, reason="OOMKilled", summary=a_summary(step="running", current="t.py::test_big")),
            an_ended_pod(1, 20), report=LOST,
        ),
        verdict=Verdict.TESTS_FAILED, reason=Reason.OUT_OF_MEMORY, words="during t.py::test_big",
    ),
    "out of memory, no case": EndingRow(
        evidence=evidence(an_ended_pod(0, 20), an_ended_pod(1, 137, reason="OOMKilled"), report=found(GANG_LOST)),
        verdict=Verdict.ERRORED, reason=Reason.OUT_OF_MEMORY, words="resources.limits.memory",
    ),
    "image away on one node": EndingRow(
        evidence=evidence(a_pod(0), a_waiting_pod(1, "ImagePullBackOff"), seconds=36),
        verdict=Verdict.INFRA_FAILED, reason=Reason.IMAGE_UNAVAILABLE, words="although other pods of the gang have it",
        retry=Retry.CHARGED, blamed=("node1",),
    ),
    "image away": EndingRow(
        evidence=evidence(*(a_waiting_pod(index, "ImagePullBackOff") for index in (1, 0)), seconds=36),
        verdict=Verdict.ERRORED, reason=Reason.IMAGE_UNAVAILABLE,
        words="Image 'runner:1' cannot be pulled for pod nightly-a1-0",
    ),
    "image name wrong": EndingRow(
        evidence=evidence(a_waiting_pod(0, "InvalidImageName", image="mine:1"), test=OWN_IMAGE, seconds=10),
        verdict=Verdict.ERRORED, reason=Reason.IMAGE_UNAVAILABLE, words="Check spec.image",
    ),
    "container configuration": EndingRow(
        evidence=evidence(a_waiting_pod(0, "CreateContainerConfigError"), a_pod(1), seconds=10),
        verdict=Verdict.ERRORED, reason=Reason.CONTAINER_CONFIG_ERROR,
        words="CreateContainerConfigError: no such thing",
    ),
    "pods refused": EndingRow(
        evidence=evidence(a_pod(0), events=(REFUSAL,)),
        verdict=Verdict.ERRORED, reason=Reason.PODS_FORBIDDEN, words="exceeded quota",
    ),
    "too few GPUs at the end of the wait": EndingRow(
        evidence=evidence(an_unscheduled_pod(0), an_unscheduled_pod(1), test=GPUS, nodes=SMALL_NODES, seconds=601),
        verdict=Verdict.ERRORED, reason=Reason.INSUFFICIENT_GPUS, words="within queueSeconds (600). The run needs",
    ),
    "waited too long": EndingRow(
        evidence=evidence(a_pod(0), an_unscheduled_pod(1), seconds=601),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GANG_TIMEOUT,
        words="1 of 2 pods have no node (index 1): 0/2 nodes are available",
    ),
    "leader gave up on a pod that never started": EndingRow(
        evidence=evidence(an_ended_pod(0, 20), an_unscheduled_pod(1), report=found(ALONE), seconds=30),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GANG_TIMEOUT, words="The gang released its nodes",
        retry=Retry.FREE,
    ),
    "half a gang for too long": EndingRow(
        evidence=evidence(a_pod(0), an_unscheduled_pod(1), seconds=34, has_older_rival=True),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GANG_TIMEOUT, words="1 of 2 pods have no node (index 1)",
        retry=Retry.FREE,
    ),
    "too long in its queue": EndingRow(
        evidence=evidence(job=a_job(is_suspended=True, started=None), seconds=601),
        verdict=Verdict.INFRA_FAILED, reason=Reason.QUEUE_TIMEOUT, words="the Job is suspended",
    ),
    "too long behind an older run": EndingRow(
        evidence=evidence(seconds=601, has_job=False, older_run="nightly-0"),
        verdict=Verdict.INFRA_FAILED, reason=Reason.QUEUE_TIMEOUT, words="run 'nightly-0' of the series has not",
    ),
    "killed from outside": EndingRow(
        evidence=evidence(an_ended_pod(0, 20), an_ended_pod(1, 137, seconds=19), report=found(GANG_LOST)),
        verdict=Verdict.INFRA_FAILED, reason=Reason.POD_KILLED, words="killed pod nightly-a1-1-abcde on node node1",
        retry=Retry.CHARGED, blamed=("node1",),
    ),
    "leader that lost an agent": EndingRow(
        evidence=evidence(an_ended_pod(0, 20), an_ended_pod(1, 20), report=found(GANG_LOST)),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GANG_LOST, words="agent 1 went away",
        retry=Retry.CHARGED,
    ),
    "pod vanished": EndingRow(
        evidence=evidence(a_pod(0), a_pod(1, is_gone=True, ending_since=at(20)), seconds=36),
        verdict=Verdict.INFRA_FAILED, reason=Reason.POD_DELETED, words="for an unknown reason",
        retry=Retry.CHARGED,
    ),
    "nodes differ": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 20), an_ended_pod(1, 20),
            report=found(a_bad_report(Verdict.INFRA_FAILED, Reason.NODES_DIFFER, "node1 has NCCL 2.29")),
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.NODES_DIFFER, words="node1 has NCCL 2.29",
    ),
    "a GPU is broken": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 20), an_ended_pod(1, 20),
            report=found(a_bad_report(Verdict.INFRA_FAILED, Reason.GPU_UNHEALTHY, "CUDA error 802 on node1")),
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GPU_UNHEALTHY, words="CUDA error 802",
        retry=Retry.CHARGED,
    ),
    "a GPU is broken, by the termination message": EndingRow(
        evidence=evidence(
            an_ended_pod(
                1, 20, summary=a_summary(node_index=1, verdict=Verdict.INFRA_FAILED, reason=Reason.GPU_UNHEALTHY)
            ),
            an_ended_pod(0, 20), report=LOST,
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GPU_UNHEALTHY, words="message of pod nightly-a1-1-abcde on node",
        retry=Retry.CHARGED,
    ),
    "report invalid": EndingRow(
        evidence=evidence(*ENDED, report=INVALID),
        verdict=Verdict.INFRA_FAILED, reason=Reason.REPORT_INVALID,
        words="claims Passed, but. Check the leader's log",
    ),
    "report lost, red by the termination message": EndingRow(
        evidence=evidence(
            an_ended_pod(
                0, 10, summary=a_summary(verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED, message="2 failed")
            ),
            an_ended_pod(1, 10), report=LOST,
        ),
        verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED,
        words="report is lost. Termination message of pod nightly-a1-0-abcde",
    ),
    "plan invalid by the termination message": EndingRow(
        evidence=evidence(
            an_ended_pod(
                0, 30, summary=a_summary(verdict=Verdict.ERRORED, reason=Reason.RUNNER_ERROR, message="no plan")
            ),
            an_ended_pod(1, 30), report=LOST,
        ),
        verdict=Verdict.ERRORED, reason=Reason.RUNNER_ERROR, words="no plan",
    ),
    "succeeded without a report": EndingRow(
        evidence=evidence(*ENDED, report=LOST),
        verdict=Verdict.INFRA_FAILED, reason=Reason.REPORT_MISSING,
        words="exit code 0, but the leader's log",
        retry=Retry.CHARGED,
    ),
    "passed by the termination message only": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 0, summary=a_summary(verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED)),
            an_ended_pod(1, 0), report=LOST,
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.REPORT_MISSING, words="contains no report",
        retry=Retry.CHARGED,
    ),
    "agent crashed": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 139, summary=a_summary(step="running", message="in mid-run")), an_ended_pod(1, 20),
            report=LOST,
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.RUNNER_ERROR, words="exit code 139, in mid-run",
    ),
    "runner silent beyond its deadlines": EndingRow(
        evidence=evidence(a_pod(0), a_pod(1), seconds=5 + 60 + 300 + 60),
        verdict=Verdict.TIMED_OUT, reason=Reason.RUN_TIMEOUT, words="the leader did not end it",
    ),
}  # fmt: skip  # a row reads as a sentence
