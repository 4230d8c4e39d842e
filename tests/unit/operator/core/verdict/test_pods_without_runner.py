"""Pods with a user's image, from the status that a kubelet reports to the verdict."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import PodView
from disttest_operator.core.verdict import capacity, classify
from tests.support.builders.runs import at, evidence
from tests.support.endings.ending_row import LOST, OWN_IMAGE
from tests.support.fakes.world import RUNNING, pod_body

NOW = at(6)
FIRST = {"waiting": {"reason": "PodInitializing"}}
AWAY = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
COPIED = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-11-21T02:00:05Z"}}
# What containerd reports for a command that does not exist: nothing ran, so it has no start.
NO_PYTHON = {
    "terminated": {
        "exitCode": 128,
        "reason": "StartError",
        "message": 'failed to create containerd task: exec: "python3": executable file not found in $PATH: unknown',
        "startedAt": "1970-01-01T00:00:00Z",
        "finishedAt": "2026-11-21T02:00:07Z",
    }
}


def view(
    inject: Mapping[str, Any],
    test: Mapping[str, Any],
    *,
    phase: str = "Pending",
    now: datetime = NOW,
    before: PodView | None = None,
    index: int = 0,
) -> PodView:
    body = pod_body(index, dict(test))
    body["metadata"] |= {"resourceVersion": "9", "creationTimestamp": "2026-11-21T02:00:02Z"}
    body["status"] |= {
        "phase": phase,
        "initContainerStatuses": [{"name": "inject", "image": "runner:1", "state": dict(inject)}],
        "containerStatuses": [{"name": "test", "image": "mine:1", "state": dict(test)}],
    }
    found = decoding.pod(body, now=now, before=before)
    assert found is not None
    return found


def test_a_pod_waits_for_the_image_of_its_first_container_first() -> None:
    pod = view(AWAY, FIRST)
    assert (pod.waiting_image, pod.waiting_reason) == ("runner:1", "ImagePullBackOff")
    assert "ImagePullBackOff: Back-off pulling image" in capacity.why_waiting(evidence(pod, test=OWN_IMAGE))
    pod = view(COPIED, AWAY)
    assert (pod.waiting_image, pod.waiting_reason) == ("mine:1", "ImagePullBackOff")


def test_each_image_has_its_own_pull_timeout() -> None:
    """A large image that came after minutes is no reason to give up the next one at once."""
    copying = view(RUNNING, FIRST, now=at(6))
    pulling = view(COPIED, FIRST, now=at(100), before=copying)
    failing = view(COPIED, AWAY, now=at(110), before=pulling)
    assert failing.waiting_since == at(110)
    first = view(AWAY, FIRST, now=at(6))
    assert view(AWAY, FIRST, now=at(9), before=first).waiting_since == at(6)
    assert view(COPIED, AWAY, now=at(50), before=first).waiting_since == at(50)


def test_a_pod_whose_runner_is_being_copied_has_not_started() -> None:
    pods = [view(RUNNING, FIRST, index=index) for index in (0, 1)]
    found = evidence(*pods, test=OWN_IMAGE, seconds=30)
    assert classify(found) is None
    assert not found.has_whole_gang
    assert not found.has_leader_ended


@pytest.mark.parametrize(
    ("end", "verdict", "reason"),
    [
        (
            {"exitCode": 1, "reason": "Error", "message": "No module"},
            Verdict.ERRORED,
            Reason.CONTAINER_START_ERROR,
        ),
        (
            {"exitCode": 30, "reason": "Error", "message": "no py-spy"},
            Verdict.ERRORED,
            Reason.CONTAINER_START_ERROR,
        ),
        (
            {"exitCode": 128, "reason": "StartError", "message": "exec"},
            Verdict.ERRORED,
            Reason.CONTAINER_START_ERROR,
        ),
        ({"exitCode": 20, "reason": "Error", "message": "full"}, Verdict.INFRA_FAILED, Reason.GANG_FAILED_TO_START),
        ({"exitCode": 137, "reason": "OOMKilled"}, Verdict.ERRORED, Reason.OUT_OF_MEMORY),
        ({"exitCode": 137, "reason": "Error"}, Verdict.INFRA_FAILED, Reason.POD_KILLED),
    ],
    ids=lambda value: f"{value['exitCode']} {value['reason']}" if isinstance(value, dict) else "",
)
def test_a_runner_that_is_not_copied_ends_the_run_at_once(
    end: dict[str, Any], verdict: Verdict, reason: Reason
) -> None:
    """Whichever pod of the gang it affects, whatever the other pods do, and before the leader's log could be read."""
    failed = [view({"terminated": end}, FIRST, phase="Failed", index=index) for index in (0, 1)]
    for pods in (failed[:1], failed[1:], failed):
        ending = classify(evidence(*pods, test=OWN_IMAGE, seconds=7))
        assert ending is not None
        assert (ending.verdict, ending.reason) == (verdict, reason)


def test_a_pod_that_was_deleted_from_outside_is_not_the_images_fault() -> None:
    failed = view({"terminated": {"exitCode": 143, "reason": "Error"}}, FIRST, phase="Failed")
    ending = classify(evidence(replace(failed, is_deleting=True), test=OWN_IMAGE, report=LOST, seconds=40))
    assert ending is not None
    assert ending.reason is Reason.POD_DELETED


def test_a_container_without_an_exit_code_did_not_succeed() -> None:
    pod = view(COPIED, {"terminated": {"reason": "Error", "finishedAt": "2026-11-21T02:00:08Z"}}, phase="Failed")
    assert pod.is_lost
    assert view({"terminated": {"reason": "Error"}}, FIRST).injected != view(COPIED, FIRST).injected


def test_a_container_that_never_ran_has_no_start_time() -> None:
    """Else the run would have lasted since 1970, and be out of time."""
    pods = [view(COPIED, NO_PYTHON, phase="Failed", index=index) for index in (0, 1)]
    assert pods[0].started is None
    assert classify(evidence(*pods, test=OWN_IMAGE, seconds=9)) is None
    ending = classify(evidence(*pods, test=OWN_IMAGE, report=LOST, seconds=9))
    assert ending is not None
    assert (ending.verdict, ending.reason) == (Verdict.ERRORED, Reason.CONTAINER_START_ERROR)
    assert "image 'mine:1' of pod pod-0 on node node0 (exit code 128, failed to create containerd" in ending.message
    assert ending.message.endswith("spec.image requires python3 on its PATH (3.11 or newer), torch and numpy.")
