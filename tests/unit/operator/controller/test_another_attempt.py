"""A run that loses its gang and gets another, against a cluster in memory; and with the power cut at every write."""

from typing import Any

import pytest

from disttest_operator.core.api.resources import Kind
from tests.support.builders.runs import at
from tests.support.fakes.fake_cluster import PowerCut
from tests.support.fakes.world import RUNNING, SERIES, OperatorWorld

NODES = [{"metadata": {"name": f"node{index}"}, "status": {}} for index in range(4)]


def a_world() -> OperatorWorld:
    world = OperatorWorld()
    for node in NODES:
        world.cluster.put(Kind.NODE, node)
    return world


def live(world: OperatorWorld) -> None:
    """Lose the first gang, pass with the second; whatever was done before the power failed is not done again."""
    world.look()
    if (Kind.JOB, "gpu-ci", "nightly-a1") in world.cluster.objects and not world.status.get("attempts"):
        world.pods(**RUNNING)
        world.look()
        world.lose_a_node()
        world.look()
    world.now = max(world.now, at(60))
    for index in (0, 1):  # their Job is gone
        if (Kind.JOB, "gpu-ci", "nightly-a1") not in world.cluster.objects:
            world.cluster.objects.pop((Kind.POD, "gpu-ci", f"pod-{index}"), None)
    world.look()
    if not world.status.get("verdict"):
        world.pods_of(2, **RUNNING)
        world.now = at(70)
        world.look()
        world.now = at(90)
        world.finish(attempt=2)
        world.look()
    world.look(SERIES)


def test_a_lost_gang_is_followed_by_another_on_other_nodes() -> None:
    world = a_world()
    live(world)
    status = world.status
    assert (status["verdict"], status["reason"], status["attempt"]) == ("Passed", "AllCasesPassed", 2)
    assert [(one["number"], one["verdict"], one["nodes"]) for one in status["attempts"]] == [
        (1, "InfraFailed", ["node0", "node1"]),
        (2, "Passed", ["node2", "node3"]),
    ]
    assert status["attempts"][0]["firstFailure"]["case"] == "t.py::test_a"
    (suspect,) = status["suspectNodes"]
    assert (suspect["name"], suspect["reason"], suspect["confirmed"]) == ("node1", "NodeLost", True)
    assert status["retries"] == [{"reason": "NodeLost", "count": 1}]
    assert status["startTime"] == "2026-11-21T02:00:05Z"  # of the second gang's containers, as its pods say
    spec = world.cluster.objects[Kind.JOB, "gpu-ci", "nightly-a2"]["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert required == [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node1"]}]}]
    left = sorted(f"{kind.resource}/{name}" for kind, _, name in world.cluster.objects if kind in OURS)
    assert left == ["jobs/nightly-a2", "services/nightly-a2"], "nothing is left of the first attempt"
    reasons = [body["reason"] for (kind, _, _), body in world.cluster.objects.items() if kind is Kind.EVENT]
    assert reasons == ["Created", "GangReady", "AttemptEnded", "Created", "GangReady", "Passed"]


OURS = {Kind.JOB, Kind.SERVICE}
WRITES = 23  # of such a run, events and deletions included


@pytest.mark.parametrize("cut", [step / 2 for step in range(1, 2 * WRITES + 1)])
def test_a_power_cut_at_any_write_neither_loses_nor_doubles_an_attempt(cut: float) -> None:
    world = a_world()
    world.cluster.cut = cut
    with pytest.raises(PowerCut):
        live(world)
    world.cluster.cut = None
    world.start()
    live(world)
    status = world.status
    assert (status["verdict"], status["attempt"]) == ("Passed", 2)
    assert [one["number"] for one in status["attempts"]] == [1, 2]
    assert status["retries"] == [{"reason": "NodeLost", "count": 1}]
    assert world.ledger["runCount"] == 1
    assert world.ledger["pending"] == []
    jobs = [name for kind, _, name in world.cluster.objects if kind is Kind.JOB]
    assert jobs == ["nightly-a2"]


def test_such_a_run_has_that_many_writes() -> None:
    world = a_world()
    live(world)
    assert len(world.cluster.done) == WRITES


def test_without_retries_the_run_ends_with_the_gang() -> None:
    world = OperatorWorld(retries={"infrastructure": 0})
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.lose_a_node()
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("InfraFailed", "NodeLost")
    (suspect,) = world.status["suspectNodes"]
    assert (suspect["name"], suspect["confirmed"]) == ("node1", False)


def test_a_suspended_run_starts_when_it_is_resumed_and_a_cancelled_one_ends() -> None:
    world = OperatorWorld(suspend=True)
    world.look()
    assert condition(world, "Suspended") == ("True", "SpecSuspend")
    assert not [key for key in world.cluster.objects if key[0] in OURS]
    change_spec(world, suspend=False)
    world.look()
    assert condition(world, "Suspended") == ("False", "Resumed")
    assert (Kind.JOB, "gpu-ci", "nightly-a1") in world.cluster.objects
    world.pods(**RUNNING)
    world.look()
    change_spec(world, suspend=True)
    world.look()
    assert (Kind.JOB, "gpu-ci", "nightly-a1") not in world.cluster.objects
    assert [(one["reason"], one["charged"]) for one in world.status["attempts"]] == [("Suspended", False)]
    change_spec(world, suspend=True, cancel=True)
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Cancelled", "Cancelled")
    assert not [key for key in world.cluster.objects if key[0] is Kind.JOB]


def test_a_cancelled_run_loses_its_pods_at_once() -> None:
    world = OperatorWorld()
    world.look()
    world.pods(**RUNNING)
    world.look()
    change_spec(world, cancel=True)
    world.look()
    world.look()
    assert world.status["verdict"] == "Cancelled"
    assert (Kind.JOB, "gpu-ci", "nightly-a1") not in world.cluster.objects
    assert world.ledger["totals"]["runs"] == [{"verdict": "Cancelled", "reason": "Cancelled", "count": 1}]


def change_spec(world: OperatorWorld, **changes: Any) -> None:
    body = world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    world.cluster.put(Kind.RUN, body | {"spec": body["spec"] | changes})


def condition(world: OperatorWorld, type_: str) -> tuple[str, str]:
    (found,) = [one for one in world.status["conditions"] if one["type"] == type_]
    return found["status"], found["reason"]
