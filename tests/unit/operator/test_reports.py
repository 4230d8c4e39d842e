"""Which reports are believed, and how one is found again."""

import dataclasses
from collections.abc import Callable

import pytest

from disttest_contract import frames
from tests.support.fake_cluster import PowerCut
from tests.support.runs import a_report, at
from tests.support.world import REPORT, RUNNING, World, live

REFUSED: dict[str, Callable[[World], list[str]]] = {
    "cut": lambda world: frames.encode(REPORT.raw, world.nonce)[:-2],
    "of another attempt": lambda world: frames.encode(dataclasses.replace(a_report(), attempt=2).dumps(), world.nonce),
    "of another run": lambda world: frames.encode(dataclasses.replace(a_report(), uid="other").dumps(), world.nonce),
    "with another nonce": lambda _: frames.encode(REPORT.raw, "another"),
    "not the one that was announced": lambda world: frames.encode(
        dataclasses.replace(a_report(), generations=2).dumps(), world.nonce
    ),
    "no report at all": lambda _: ["hello"],
}


@pytest.mark.parametrize("lines", REFUSED.values(), ids=REFUSED.keys())
def test_a_pass_needs_the_announced_report(lines: Callable[[World], list[str]]) -> None:
    world = World(retries={"infrastructure": 0})
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish(lines(world))
    world.look()
    world.now = at(60)  # a log that is behind gets its time
    world.look()
    assert world.status["verdict"] == "InfraFailed"
    assert world.status["reason"] in {"ReportMissing", "ReportInvalid"}
    assert "report" not in world.status


def test_a_log_that_cannot_be_read_for_a_moment_is_read_again() -> None:
    world = World()
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish()
    world.cluster.broken_logs = 2
    again = [world.look(), world.look()]
    assert all(seconds is not None and 0 < seconds < 2 for seconds in again)
    assert world.status["phase"] == "Collecting"
    world.look()
    assert world.status["verdict"] == "Passed"


def test_a_stored_report_serves_when_the_log_is_gone() -> None:
    """The operator died between storing the report and counting the run; meanwhile the pod's node went."""
    world = World()
    world.cluster.cut = 7  # after the report's ConfigMap
    with pytest.raises(PowerCut):
        live(world)
    assert world.cluster.done[-1] == "create configmaps nightly-report"
    world.cluster.cut = None
    world.cluster.logs.clear()
    world.start()
    world.look()
    assert world.status["verdict"] == "Passed"
