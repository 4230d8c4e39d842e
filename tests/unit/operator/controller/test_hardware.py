"""Broken hardware in the log of a red attempt is the hardware's fault; what passed stays passed."""

from disttest_contract.outcomes import Outcome
from disttest_operator.core.api.resources import Kind
from tests.support.builders.runs import a_report, found
from tests.support.fakes.world import RUNNING, OperatorWorld

ECC = "[rank 0] RuntimeError: CUDA error: uncorrectable ECC error encountered"


def a_red_world(log: str) -> OperatorWorld:
    world = OperatorWorld(retries={"infrastructure": 0})
    world.report = found(a_report({"test_a": Outcome.FAILED}))
    return ended(world, log)


def ended(world: OperatorWorld, log: str) -> OperatorWorld:
    world.start()
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish(said_before=log)
    world.look()
    return world


def test_a_failed_run_on_a_broken_gpu_is_a_gpu_failure_and_blames_the_node() -> None:
    status = a_red_world(ECC).status
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "GPUUnhealthy")
    assert "uncorrectable ECC error" in status["message"]
    assert [one["name"] for one in status["suspectNodes"]] == ["node0"]
    assert status["cases"]["failed"] == 1, "the results of the cases are reported all the same"


def test_a_failed_run_without_such_a_sign_is_a_failure_of_the_tests() -> None:
    status = a_red_world("[rank 0] CUDA error: an illegal memory access was encountered").status
    assert (status["verdict"], status["reason"]) == ("TestsFailed", "CasesFailed")


def test_what_passed_stays_passed_and_nothing_is_searched() -> None:
    world = OperatorWorld()
    ended(world, ECC)
    assert world.status["verdict"] == "Passed"
    assert "list nodes" not in world.cluster.reads


def test_a_condition_of_a_node_of_the_gang_is_found_too() -> None:
    world = OperatorWorld(retries={"infrastructure": 0})
    sick = {"type": "GPUMissing", "status": "True", "reason": "GPUMissing", "message": "7 of 8"}
    world.cluster.put(Kind.NODE, {"metadata": {"name": "node1"}, "status": {"conditions": [sick]}})
    world.report = found(a_report({"test_a": Outcome.FAILED}))
    status = ended(world, "nothing").status
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "GPUUnhealthy")
    assert [one["name"] for one in status["suspectNodes"]] == ["node1"]
