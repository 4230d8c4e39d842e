"""Endings of runs whose image cannot run the runner, or whose pods did not get it."""

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.verdict.rule import Retry
from tests.support.builders.runs import (
    a_disrupted_pod,
    a_pod,
    a_pod_without_runner,
    a_summary,
    a_waiting_pod,
    an_ended_pod,
    evidence,
)
from tests.support.endings.ending_row import LOST, OWN_IMAGE, EndingRow

NO_PYTHON = 'unable to start container process: exec: "python3": executable file not found in $PATH'
OLD = a_summary(
    verdict=Verdict.ERRORED,
    reason=Reason.CONTAINER_START_ERROR,
    message="the image's Python is 3.8; the runner needs 3.11",
)

OF_IMAGES = {
    "command not found": EndingRow(
        evidence=evidence(an_ended_pod(0, 127), an_ended_pod(1, 127), report=LOST),
        verdict=Verdict.ERRORED, reason=Reason.CONTAINER_START_ERROR, words="Use an image of the runner",
    ),
    "container could not start": EndingRow(
        evidence=evidence(an_ended_pod(0, 128, reason="StartError"), an_ended_pod(1, 20), report=LOST),
        verdict=Verdict.ERRORED, reason=Reason.CONTAINER_START_ERROR, words="exit code 128",
    ),
    "image without the runner": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 1, message="No module named disttest_runner"), an_ended_pod(1, 1), report=LOST
        ),
        verdict=Verdict.ERRORED, reason=Reason.CONTAINER_START_ERROR,
        words="end of its log: No module named disttest_runner",
    ),
    "own image without Python": EndingRow(
        evidence=evidence(
            *(an_ended_pod(n, 128, reason="StartError", message=NO_PYTHON, started=None) for n in (0, 1)),
            test=OWN_IMAGE, report=LOST,
        ),
        verdict=Verdict.ERRORED, reason=Reason.CONTAINER_START_ERROR,
        words=f"image 'mine:1' of pod nightly-a1-0-abcde on node node0 (exit code 128, {NO_PYTHON}). spec.image",
    ),
    "own image with an old Python": EndingRow(
        evidence=evidence(*(an_ended_pod(n, 30, summary=OLD) for n in (0, 1)), test=OWN_IMAGE, report=LOST),
        verdict=Verdict.ERRORED, reason=Reason.CONTAINER_START_ERROR,
        words="The runner cannot run in image 'mine:1' (pod nightly-a1-0-abcde on node node0): the image's Python is",
    ),
    "image of the runner away": EndingRow(
        evidence=evidence(
            *(a_waiting_pod(n, "ImagePullBackOff", image="runner:1") for n in (0, 1)), test=OWN_IMAGE, seconds=36
        ),
        verdict=Verdict.ERRORED, reason=Reason.IMAGE_UNAVAILABLE,
        words="(ImagePullBackOff: no such thing). Check --runner-image of the operator and spec.template",
    ),
    "no runner in the image of the runner": EndingRow(
        evidence=evidence(
            a_pod_without_runner(0, 1, reason="Error", message="No module named disttest_runner.inject"), a_pod(1),
            test=OWN_IMAGE, seconds=7,
        ),
        verdict=Verdict.ERRORED, reason=Reason.CONTAINER_START_ERROR,
        words="(exit code 1, end of its log: No module named disttest_runner.inject). Correct --runner-image of",
    ),
    "no room for the runner": EndingRow(
        evidence=evidence(
            a_pod(0), a_pod_without_runner(1, 20, reason="Error", message="No space left on device"),
            test=OWN_IMAGE, seconds=7,
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GANG_FAILED_TO_START,
        words="not copied into pod nightly-a1-1-abcde on node node1 (exit code 20, end of its log: No space left",
        retry=Retry.CHARGED, blamed=("node1",),
    ),
    "out of memory while the runner was copied": EndingRow(
        evidence=evidence(a_pod_without_runner(0, 137, reason="OOMKilled"), test=OWN_IMAGE, seconds=7),
        verdict=Verdict.ERRORED, reason=Reason.OUT_OF_MEMORY, words="resources.limits.memory",
    ),
    "killed while the runner was copied": EndingRow(
        evidence=evidence(a_pod_without_runner(0, 137, reason="Error"), test=OWN_IMAGE, seconds=7),
        verdict=Verdict.INFRA_FAILED, reason=Reason.POD_KILLED, words="while the runner was copied into it",
        retry=Retry.CHARGED, blamed=("node0",),
    ),
    "disrupted while the runner was copied": EndingRow(
        evidence=evidence(
            a_disrupted_pod(0, "PreemptionByScheduler", injected=a_pod_without_runner(0, 143).injected, started=None),
            test=OWN_IMAGE, seconds=40,
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.DISRUPTED, words="PreemptionByScheduler",
        retry=Retry.CHARGED,
    ),
}  # fmt: skip  # a row reads as a sentence
