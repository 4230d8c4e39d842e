from datetime import datetime
from typing import Any

import pytest

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import Key
from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.api.resources import Kind
from tests.support.builders.cron_jobs import cron_job_body, written
from tests.support.builders.runs import UID, at
from tests.support.fakes.world import RUNNING, pod_body, run_body

KEY = Key(kind=Kind.RUN, namespace="gpu-ci", name="nightly")
WAITING = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}


def versioned(body: dict[str, Any], version: int) -> dict[str, Any]:
    meta = {"creationTimestamp": "2026-11-21T02:00:02Z"} | body["metadata"] | {"resourceVersion": str(version)}
    return body | {"metadata": meta}


@pytest.fixture
def caches() -> Cache:
    filled = Cache(Defaults(image="runner:1"))
    filled.put(Kind.RUN, versioned(run_body(), 5), at(0))
    return filled


def the_test(caches: Cache) -> DistTest:
    run = caches.run("gpu-ci", "nightly")
    assert run is not None
    return run.test


def put_pod(caches: Cache, version: int, state: dict[str, Any], now: datetime) -> Key | None:
    return caches.put(Kind.POD, versioned(pod_body(0, state), version), now)


def test_an_older_state_never_replaces_a_newer_one(caches: Cache) -> None:
    assert put_pod(caches, 9, RUNNING, at(1)) == KEY
    put_pod(caches, 8, WAITING, at(2))
    assert caches.pods(the_test(caches))[0].waiting_reason == ""


def test_a_pod_that_is_gone_stays_with_its_last_state_until_the_run_is_finished(caches: Cache) -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "the end"}}
    put_pod(caches, 9, ended, at(1))
    caches.remove(Kind.POD, versioned(pod_body(0, {}), 10), at(2))
    pod = caches.pods(the_test(caches))[0]
    assert pod.is_gone
    assert pod.exit is not None
    assert (pod.exit.code, pod.exit.message) == (137, "the end")
    finished = run_body() | {"status": {"verdict": "InfraFailed", "phase": "Finished"}}
    caches.put(Kind.RUN, versioned(finished, 11), at(3))
    assert caches.pods(the_test(caches)) == ()


def test_a_list_does_not_restore_an_object_that_a_watch_reported_as_deleted(caches: Cache) -> None:
    caches.remove(Kind.RUN, versioned(run_body(), 7), at(1))
    caches.put(Kind.RUN, versioned(run_body(), 6), at(2))
    assert caches.run("gpu-ci", "nightly") is None


def test_pruning_forgets_what_a_list_lacks_and_keeps_what_is_newer(caches: Cache) -> None:
    assert caches.prune(Kind.RUN, [], 4, at(1)) == []
    assert caches.run("gpu-ci", "nightly") is not None, "created after the list was read"
    assert caches.prune(Kind.RUN, [], 5, at(1)) == [KEY]
    assert caches.run("gpu-ci", "nightly") is None


def test_a_pruned_pod_of_an_unfinished_run_counts_as_gone(caches: Cache) -> None:
    put_pod(caches, 9, RUNNING, at(1))
    assert caches.prune(Kind.POD, [], 10, at(2)) == [KEY]
    assert caches.pods(the_test(caches))[0].is_gone


def test_image_errors_that_take_turns_are_one_wait(caches: Cache) -> None:
    put_pod(caches, 9, WAITING, at(10))
    put_pod(caches, 10, {"waiting": {"reason": "ImagePullBackOff"}}, at(20))
    assert caches.pods(the_test(caches))[0].waiting_since == at(10)
    put_pod(caches, 11, RUNNING, at(30))
    assert caches.pods(the_test(caches))[0].waiting_since is None


def test_pods_of_others_are_not_kept(caches: Cache) -> None:
    body = versioned(pod_body(0, RUNNING), 9)
    del body["metadata"]["annotations"]
    assert caches.put(Kind.POD, body, at(1)) is None


def test_a_second_run_of_the_name_does_not_see_the_pods_of_the_first(caches: Cache) -> None:
    put_pod(caches, 9, RUNNING, at(1))
    caches.remove(Kind.RUN, versioned(run_body(), 12), at(2))
    second = run_body()
    second["metadata"]["uid"] = "another"
    caches.put(Kind.RUN, versioned(second, 13), at(3))
    assert the_test(caches).uid != UID
    assert caches.pods(the_test(caches)) == ()


def test_a_finished_run_is_kept_without_the_details_of_its_status(caches: Cache) -> None:
    status = {"verdict": "Passed", "phase": "Finished", "completionTime": "2026-11-21T02:00:20Z", "failures": [{}] * 20}
    caches.put(Kind.RUN, versioned(run_body() | {"status": status}, 6), at(1))
    assert the_test(caches).is_finished
    assert the_test(caches).status["completionTime"] == "2026-11-21T02:00:20Z"
    assert "failures" not in the_test(caches).status


def test_a_spec_is_read_again_only_with_another_generation(caches: Cache) -> None:
    before = the_test(caches).spec
    body = run_body() | {"status": {"phase": "Running"}}
    caches.put(Kind.RUN, versioned(body, 6), at(1))
    assert the_test(caches).spec is before
    assert (the_test(caches).status["phase"], the_test(caches).resource_version) == ("Running", "6")
    body["metadata"] = body["metadata"] | {"generation": 2}
    body["spec"] = body["spec"] | {"ttlSecondsAfterFinished": 9}
    caches.put(Kind.RUN, versioned(body, 7), at(2))
    assert the_test(caches).spec.ttl_seconds_after_finished == 9


def test_a_cronjob_belongs_to_the_series_of_its_label(caches: Cache) -> None:
    series = Key(kind=Kind.SERIES, namespace="gpu-ci", name="nightly")
    assert caches.put(Kind.CRON_JOB, versioned(cron_job_body(), 20), at(1)) == series
    assert [one.schedule for one in caches.schedules()] == ["0 1 * * *"]
    assert caches.has_schedule("gpu-ci", "nightly")
    assert not caches.has_schedule("other", "nightly")
    assert series in caches.keys()  # noqa: SIM118  # not a dict
    assert caches.remove(Kind.CRON_JOB, versioned(cron_job_body(), 21), at(2)) == series
    assert (caches.schedules(), caches.has_schedule("gpu-ci", "nightly")) == ([], False)


def test_a_cronjob_that_moves_to_another_series_leaves_the_first(caches: Cache) -> None:
    caches.put(Kind.CRON_JOB, versioned(cron_job_body(), 20), at(1))
    caches.put(Kind.CRON_JOB, versioned(cron_job_body(series="weekly"), 21), at(2))
    assert not caches.has_schedule("gpu-ci", "nightly")
    assert [one.series for one in caches.schedules()] == ["weekly"]
    caches.put(Kind.CRON_JOB, versioned(cron_job_body(series=""), 22), at(3))
    assert caches.schedules() == []


def test_a_cronjob_of_which_only_the_image_changes_expects_what_it_did(caches: Cache) -> None:
    caches.put(Kind.CRON_JOB, versioned(cron_job_body(), 20), at(1))
    [before] = caches.schedules()
    changed = versioned(cron_job_body(), 21)
    changed["metadata"]["managedFields"] = [written("2026-11-20T00:00:00Z", "schedule", "jobTemplate")]
    caches.put(Kind.CRON_JOB, changed, at(2))
    assert caches.schedules() == [before]
