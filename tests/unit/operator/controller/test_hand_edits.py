"""What people and forgers change in objects of ours: refused or repaired, never a wrong verdict, never a dead end."""

from typing import Any

import pytest

from disttest_operator.core.api import naming
from disttest_operator.core.api.resources import Kind
from tests.support.builders.runs import UID, a_summary, at
from tests.support.fakes.world import RUNNING, SERIES, OperatorWorld, pod_body, terminated

RUN = (Kind.RUN, "gpu-ci", "nightly")
JOB = (Kind.JOB, "gpu-ci", "nightly-a1")
LEDGER = (Kind.SERIES, "gpu-ci", "adhoc")
LONGEST_SECONDS = 3601


def a_running_world(**spec: Any) -> OperatorWorld:
    world = OperatorWorld(**spec)
    world.look()
    world.pods(**RUNNING)
    world.now = at(6)
    world.look()
    assert world.status["phase"] == "Running"
    return world


def edit(world: OperatorWorld, where: tuple[Kind, str, str], **status: Any) -> None:
    body = world.cluster.objects[where]
    kept = {**body.get("status", {}), **status}
    world.cluster.put(where[0], body | {"status": {key: value for key, value in kept.items() if value is not None}})


def gangs(world: OperatorWorld) -> list[str]:
    return [words for words in world.cluster.done if words.startswith("create jobs")]


EDITS: dict[str, dict[str, Any]] = {
    "attempt 7": {"attempt": 7},
    "attempt 0": {"attempt": 0},
    "no attempt": {"attempt": None},
    "phase Finished": {"phase": "Finished", "message": "all is well"},
    "phase Queued": {"phase": "Queued"},
    "no phase": {"phase": None},
    "no conditions": {"conditions": None},
    "invented suspects": {"suspectNodes": [{"name": "Not A Node!", "reason": "x"}]},
    "invented retries": {"retries": [{"reason": "Weather", "count": 10**12}]},
    "start in year 0": {"startTime": "0000-01-01T00:00:00Z"},
    "start in year 9999": {"startTime": "9999-12-31T23:59:59-23:59"},
    "start in small letters": {"startTime": "2026-11-21t02:00:05z"},
    "series and gpus": {"series": "other", "gpus": 10**15, "observedGeneration": 10**15},
    "completed already": {"completionTime": "9999-12-31T23:59:59Z", "durationSeconds": 1e300},
    "results": {"cases": {"passed": 10**9}, "failures": [{"case": "x", "outcome": "failed"}]},
}


@pytest.mark.parametrize("status", EDITS.values(), ids=EDITS.keys())
def test_a_status_that_is_edited_during_a_run_neither_stops_nor_doubles_it(status: dict[str, Any]) -> None:
    world = a_running_world()
    edit(world, RUN, **status)
    again = world.look()
    assert again is None or 0 < again <= LONGEST_SECONDS
    assert world.status["phase"] == "Running", "repaired"
    assert "verdict" not in world.status
    world.finish()
    world.look()
    world.look(SERIES)
    assert (world.status["verdict"], world.status["attempt"]) == ("Passed", 1)
    assert world.ledger["runCount"] == 1
    assert gangs(world) == ["create jobs nightly-a1"]


def test_a_gang_continues_when_the_records_of_earlier_attempts_are_removed() -> None:
    world = a_running_world(retries={"infrastructure": 1})
    world.lose_a_node()
    world.look()
    for index in (0, 1):
        del world.cluster.objects[Kind.POD, "gpu-ci", f"pod-{index}"]
    world.look()
    world.pods_of(2, **RUNNING)
    world.now = at(70)
    world.look()
    edit(world, RUN, attempts=None)
    world.look()
    assert (Kind.JOB, "gpu-ci", "nightly-a2") in world.cluster.objects
    world.now = at(90)
    world.finish(attempt=2)
    world.look()
    assert (world.status["verdict"], world.status["attempt"]) == ("Passed", 2)
    first = world.status["attempts"][0]
    assert (first["number"], first["charged"]) == (1, True), "a retry that was used up does not come back"
    assert "was removed from the status" in first["message"]
    assert gangs(world) == ["create jobs nightly-a1", "create jobs nightly-a2"]


def test_a_verdict_written_by_hand_ends_the_gang_and_is_not_counted() -> None:
    world = a_running_world()
    edit(world, RUN, verdict="Passed")
    world.look()
    world.look()
    assert JOB not in world.cluster.objects
    assert world.ledger == {}
    before = len(world.cluster.done)
    assert world.look() is None
    assert len(world.cluster.done) == before


def test_a_run_that_ended_in_the_future_still_loses_its_pods() -> None:
    """The clock was ahead when it ended, and is right again."""
    world = a_running_world()
    world.now = at(36_000)
    world.finish()
    world.cluster.put(Kind.POD, pod_body(1, RUNNING))
    world.look()
    assert world.status["verdict"] == "Passed"
    world.now = at(60)
    world.look()
    assert world.cluster.done[-1] == "delete jobs nightly-a1"


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_jumps_between_two_reconciles_changes_no_verdict(hours: int) -> None:
    world = OperatorWorld(
        timeouts={"queueSeconds": 600, "rendezvousSeconds": 60, "caseSeconds": 60, "runSeconds": 86_400}
    )
    world.look()
    world.pods(**RUNNING)
    for seconds in (5, 5 + hours * 3600, 15):
        world.now = at(seconds)
        again = world.look()
        assert again is not None
        assert 0 < again <= LONGEST_SECONDS
    world.finish()
    world.look()
    assert (world.status["verdict"], world.ledger["runCount"]) == ("Passed", 1)


WRONG_CLOCKS = {
    "1970": "1970-01-01T00:00:00Z",
    "hours behind": "2026-11-20T20:00:00Z",
    "hours ahead": "2026-11-21T09:00:00Z",
    "2100": "2100-01-01T00:00:00Z",
    "year 9999": "9999-12-31T23:59:59Z",
}


@pytest.mark.parametrize("moment", WRONG_CLOCKS.values(), ids=WRONG_CLOCKS.keys())
def test_a_node_with_a_wrong_clock_neither_ends_a_run_early_nor_keeps_it_forever(moment: str) -> None:
    world = OperatorWorld()
    world.look()
    world.now = at(6)
    world.pods(running={"startedAt": moment})
    again = world.look()
    assert (world.status["phase"], "verdict" in world.status) == ("Running", False)
    timeouts = world.caches.run("gpu-ci", "nightly").test.spec.timeouts  # type: ignore[union-attr]  # it is there
    whole_seconds = timeouts.rendezvous_seconds + timeouts.run_seconds + world.policy.grace_seconds
    world.now = at(whole_seconds)
    world.look()
    assert "verdict" not in world.status
    world.now = at(whole_seconds + 7)
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("TimedOut", "RunTimeout")
    assert again is None or 0 < again <= LONGEST_SECONDS


STAMPS = ("1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "soon")


@pytest.mark.parametrize("moment", STAMPS)
@pytest.mark.parametrize("code", [0, 137])
def test_containers_that_ended_at_impossible_times_still_give_a_verdict(moment: str, code: int) -> None:
    world = a_running_world(retries={"infrastructure": 0})
    world.finish()
    for index in (0, 1):
        pod = world.cluster.objects[Kind.POD, "gpu-ci", f"pod-{index}"]
        end = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        end |= {"finishedAt": moment, "startedAt": moment, "exitCode": code}
        world.cluster.put(Kind.POD, pod)
    world.look()
    world.now = at(60)
    world.look()
    assert world.status["verdict"] == ("InfraFailed" if code else "Passed")
    assert world.status["completionTime"].startswith("2026-11-21")


def test_a_forged_termination_message_is_ignored() -> None:
    world = a_running_world(retries={"infrastructure": 0})
    forged = {"exitCode": 0, "message": '{"schema":1,"attempt":Infinity,"nodeIndex":0,"step":"x"}'}
    world.pods(terminated=forged)
    world.look()
    world.now = at(60)
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("InfraFailed", "ReportMissing")


def test_a_ledger_that_is_deleted_during_a_run_starts_again() -> None:
    world = OperatorWorld()
    world.cluster.put(Kind.SERIES, {"metadata": {"name": "adhoc", "namespace": "gpu-ci"}, "status": {"runCount": 7}})
    world.look()
    world.pods(**RUNNING)
    world.look()
    del world.cluster.objects[LEDGER]
    world.finish()
    world.look()
    assert (world.status["verdict"], world.ledger["runCount"]) == ("Passed", 1)


PENDING: dict[str, dict[str, Any]] = {
    "without a status": {"verdict": "Passed", "reason": "x"},
    "with an empty status": {"verdict": "Passed", "reason": "x", "status": {}},
    "with another verdict inside": {"verdict": "TestsFailed", "reason": "x", "status": {"verdict": "Passed"}},
}


@pytest.mark.parametrize("entry", PENDING.values(), ids=PENDING.keys())
def test_an_edited_entry_of_the_ledger_gives_no_verdict(entry: dict[str, Any]) -> None:
    world = a_running_world()
    world.cluster.put(Kind.SERIES, {"metadata": {"name": "adhoc", "namespace": "gpu-ci"}})
    edit(world, LEDGER, pending=[{"uid": UID, "name": "nightly", **entry}], runs=[{"uid": "x", "verdict": "Passed"}])
    world.look()
    assert "verdict" not in world.status
    world.finish()
    world.look()
    world.look(SERIES)
    assert (world.status["verdict"], world.status["reason"]) == ("Passed", "AllCasesPassed")
    assert (world.ledger["runCount"], world.ledger["pending"]) == (1, [])


def unlabel(world: OperatorWorld, kind: Kind, name: str, *labels: str) -> None:
    """As `kubectl label pod x disttest.dev/name-`: a watch by label says that the object is deleted."""
    body = world.cluster.objects[kind, "gpu-ci", name]
    kept = {key: value for key, value in body["metadata"]["labels"].items() if key not in labels}
    after = world.cluster.put(kind, body | {"metadata": {**body["metadata"], "labels": kept}})
    if naming.LABEL_NAME in labels:
        gone = {**body["metadata"], "resourceVersion": after["metadata"]["resourceVersion"]}
        world.caches.remove(kind, {**body, "metadata": gone}, world.now)


def test_a_job_without_its_labels_is_still_the_runs() -> None:
    world = a_running_world()
    unlabel(world, Kind.JOB, "nightly-a1", naming.LABEL_NAME, naming.LABEL_MANAGED_BY, naming.LABEL_UID)
    world.look()
    assert gangs(world) == ["create jobs nightly-a1"]
    assert "verdict" not in world.status
    body = world.cluster.objects[RUN]
    world.cluster.put(Kind.RUN, body | {"spec": body["spec"] | {"cancel": True}})
    world.look()
    world.look()
    assert world.status["verdict"] == "Cancelled"
    assert JOB not in world.cluster.objects, "its pods do not run on"


def belong_to_their_job(world: OperatorWorld) -> None:
    uid = world.cluster.objects[JOB]["metadata"]["uid"]
    for index in (0, 1):
        body = world.cluster.objects[Kind.POD, "gpu-ci", f"pod-{index}"]
        body["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "nightly-a1", "uid": uid, "controller": True}]
        body["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = uid
        world.cluster.put(Kind.POD, body)


OUR_LABELS = {
    "name": (naming.LABEL_NAME,),
    "all": (naming.LABEL_NAME, naming.LABEL_UID, naming.LABEL_ATTEMPT),
    "uid": (naming.LABEL_UID,),
    "attempt": (naming.LABEL_ATTEMPT,),
}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same operator", "another operator"])
@pytest.mark.parametrize("labels", OUR_LABELS.values(), ids=OUR_LABELS.keys())
def test_pods_that_lost_their_labels_continue_and_their_end_is_observed(
    labels: tuple[str, ...], *, is_restarted: bool
) -> None:
    world = a_running_world()
    belong_to_their_job(world)
    world.look()
    for index in (0, 1):
        unlabel(world, Kind.POD, f"pod-{index}", *labels)
    if is_restarted:
        world.start()
    again = world.look()
    assert "verdict" not in world.status
    assert world.status["phase"] == "Running"
    if naming.LABEL_NAME in labels or is_restarted:
        assert again is not None
        assert again < 10, "nothing else tells when they end"
    before = {index: world.cluster.objects[Kind.POD, "gpu-ci", f"pod-{index}"]["metadata"] for index in (0, 1)}
    world.finish()
    for index, meta in before.items():
        world.cluster.put(Kind.POD, world.cluster.objects[Kind.POD, "gpu-ci", f"pod-{index}"] | {"metadata": meta})
    world.look()
    assert (world.status["verdict"], world.ledger["runCount"]) == ("Passed", 1)
    assert gangs(world) == ["create jobs nightly-a1"]


def test_pods_of_a_slowly_starting_gang_are_not_listed_at_each_reconcile() -> None:
    world = OperatorWorld()
    world.look()
    world.cluster.put(Kind.POD, pod_body(0, RUNNING))
    for moment in (10.0, 10.1, 10.2, 10.3):
        world.now = at(moment)
        world.look()
    assert world.cluster.reads.count("list pods") == 1


def test_a_pod_that_is_really_gone_is_gone() -> None:
    world = a_running_world(retries={"infrastructure": 0})
    belong_to_their_job(world)
    world.look()
    del world.cluster.objects[Kind.POD, "gpu-ci", "pod-1"]
    world.pods_of(1, terminated=terminated(20, a_summary()))
    del world.cluster.objects[Kind.POD, "gpu-ci", "pod-1"]
    world.look()
    world.now = at(60)
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("InfraFailed", "PodDeleted")
