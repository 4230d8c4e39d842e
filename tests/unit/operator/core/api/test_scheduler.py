"""What a scheduler adds to a Job, and how a waiting Job is recognised."""

import pytest

from disttest_operator.core.api import scheduler
from disttest_operator.core.api.model import Manifest

JOB: Manifest = {"metadata": {"name": "nightly-a1", "labels": {"team": "a"}}, "spec": {"completions": 2}}


def test_without_a_queue_the_job_is_created_as_it_is() -> None:
    assert scheduler.prepare(JOB, "") == JOB


def test_kueue_gets_a_suspended_job_with_the_label_of_its_queue() -> None:
    prepared = scheduler.prepare(JOB, "team-a")
    assert prepared["metadata"]["labels"] == {"team": "a", "kueue.x-k8s.io/queue-name": "team-a"}
    assert prepared["spec"] == {"completions": 2, "suspend": True}
    assert JOB["metadata"]["labels"] == {"team": "a"}, "the manifest that was given has changed"


@pytest.mark.parametrize(("spec", "is_waiting"), [({}, False), ({"suspend": False}, False), ({"suspend": True}, True)])
def test_a_suspended_job_waits(spec: dict[str, bool], *, is_waiting: bool) -> None:
    assert scheduler.is_waiting({"spec": spec}) is is_waiting
