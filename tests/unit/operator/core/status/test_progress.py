"""status.progress: its content, when it is written, and that it goes with the end of its gang."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.transport.progress import Failure, Progress
from disttest_operator.cache.cached_run import Key
from disttest_operator.core import actions
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.evidence import Evidence, ProgressSeen
from disttest_operator.core.plan import next_step
from disttest_operator.core.status import progress
from disttest_operator.core.status.progress import FollowTarget
from tests.support.builders.runs import NONCE, a_job, a_pod, a_test, an_ended_pod, at, evidence
from tests.support.fakes.world import KEY, RUNNING, OperatorWorld

SAID = Progress(
    step="running",
    nodes_joined=2,
    suite="collectives",
    current_case="t.py::test_c",
    cases_done=2,
    cases_total=9,
    counts=Counts.of([Outcome.PASSED, Outcome.FAILED]),
    failures=(Failure(suite="collectives", case="t.py::test_b", outcome=Outcome.FAILED, ranks="0-3", message="no"),),
)
LATER = Progress(step="running", nodes_joined=2, suite="collectives", cases_done=3, cases_total=9)


def seen(reported: Progress = SAID, nonce: str = NONCE, spacing_seconds: float = 10) -> ProgressSeen:
    return ProgressSeen(progress=reported, nonce=nonce, spacing_seconds=spacing_seconds)


def a_look(before: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    """At a gang that runs."""
    usual: dict[str, Any] = {"test": a_test({"progress": before} if before else {}), "progress": seen()}
    return evidence(a_pod(0), a_pod(1), **usual | changes)


def written(reported: Progress, seconds: float) -> dict[str, Any]:
    shown = progress.to_status(reported, a_test()) | {"time": f"2026-11-21T02:00:{seconds:02.0f}Z"}
    return {key: value for key, value in shown.items() if value is not None}


def test_the_first_progress_is_written_at_once() -> None:
    shown = progress.due(a_look())
    assert shown == {
        "step": "running",
        "nodesJoined": 2,
        "suite": "collectives",
        "currentCase": "t.py::test_c",
        "casesDone": 2,
        "casesTotal": 9,
        "suitesDone": 0,
        "cases": Counts.of([Outcome.PASSED, Outcome.FAILED]).to_json(),
        "failures": [
            {"suite": "collectives", "case": "t.py::test_b", "outcome": "failed", "ranks": "0-3", "message": "no"}
        ],
        "time": "2026-11-21T02:00:20Z",
    }


@pytest.mark.parametrize(
    ("reported", "since_seconds", "spacing_seconds", "wanted"),
    [
        (LATER, 9, 10, "later"),
        (LATER, 10.9, 10, "later"),
        (LATER, 11, 10, "now"),
        (LATER, 15, 51.2, "later"),
        (LATER, 53, 51.2, "now"),
        (SAID, 3000, 10, "never"),
    ],
    ids=["too soon", "a stamp's second too soon", "time", "many runs: too soon", "many runs: time", "nothing new"],
)
def test_it_is_written_when_it_has_changed_and_some_time_has_passed(
    reported: Progress, since_seconds: float, spacing_seconds: float, wanted: str
) -> None:
    now = seen(reported, spacing_seconds=spacing_seconds)
    look = a_look(written(SAID, 20), progress=now, seconds=20 + since_seconds)
    assert (progress.due(look) is not None) is (wanted == "now")
    due_at = at(20) + timedelta(seconds=spacing_seconds + 1)
    assert progress.due_at(look) == (None if wanted == "never" else due_at)


def test_a_clock_that_jumped_back_does_not_prevent_a_write_of_progress() -> None:
    assert progress.due(a_look(written(SAID, 59), progress=seen(LATER), seconds=20)) is not None


WITHOUT_TARGET = {
    "another attempt's line": a_look(progress=seen(nonce="beef")),
    "no line": a_look(progress=None),
    "the gang is not whole": evidence(a_pod(0), progress=seen()),
    "the leader has ended": evidence(an_ended_pod(0, 0), a_pod(1), progress=seen()),
    "the Job is gone": evidence(a_pod(0), a_pod(1), has_job=False, progress=seen()),
    "finished": a_look(test=a_test({"verdict": "Passed"})),
    "being deleted": a_look(test=a_test(is_deleting=True)),
}


@pytest.mark.parametrize("look", WITHOUT_TARGET.values(), ids=WITHOUT_TARGET.keys())
def test_no_progress_is_written_for_a_run_that_has_ended(look: Evidence) -> None:
    assert progress.due_at(look) is None
    assert progress.due(look) is None


@pytest.mark.parametrize("reason", WITHOUT_TARGET)
def test_only_the_leader_of_a_running_gang_is_followed(reason: str) -> None:
    goes_on = reason in {"another attempt's line", "no line"}
    wanted = FollowTarget(namespace="gpu-ci", pod="nightly-a1-0-abcde", uid="pod-0", nonce=NONCE)
    assert progress.target(WITHOUT_TARGET[reason]) == (wanted if goes_on else None)


def test_without_its_secret_a_log_is_not_followed() -> None:
    assert progress.target(a_look(job=a_job(nonce=""))) is None


@pytest.mark.parametrize(("followed", "seconds"), [(1, 10), (50, 10), (51, 10.2), (128, 25.6)])
def test_all_runs_together_are_written_five_times_a_second_at_most(followed: int, seconds: float) -> None:
    assert progress.spacing_seconds(followed) == pytest.approx(seconds)


def test_progress_waits_for_its_spacing_and_the_phase_is_written_first() -> None:
    running = {"phase": "Running", **status_of(a_look())}
    look = a_look(test=a_test(running | {"progress": written(SAID, 20)}), progress=seen(LATER), seconds=25)
    step = next_step(look)
    assert isinstance(step, actions.Done)
    assert step.requeue_seconds == pytest.approx(6, abs=0.1)
    assert isinstance(next_step(a_look()), actions.WriteStatus), "the phase first"
    assert isinstance(next_step(a_look(test=a_test(running))), actions.WriteProgress)


def status_of(look: Evidence) -> dict[str, Any]:
    step = next_step(look)
    assert isinstance(step, actions.WriteStatus)
    return dict(step.status)


class StubFollowers:
    """Followers with the progress that a test sets."""

    def __init__(self) -> None:
        self.now: ProgressSeen | None = None
        self.targets: list[FollowTarget | None] = []
        self.muted: list[Key] = []

    def newest(self, _: Key) -> ProgressSeen | None:
        return None if self.muted else self.now

    def follow(self, _: Key, target: FollowTarget | None) -> None:
        self.targets.append(target)

    def mute(self, key: Key) -> None:
        self.muted.append(key)


def a_world() -> tuple[OperatorWorld, StubFollowers]:
    """A run whose gang runs, and what its log says."""
    world, followers = OperatorWorld(), StubFollowers()
    world.reconciler = reconciler_of(world, followers)
    world.look()
    world.pods(**RUNNING)
    world.look()
    return world, followers


def reconciler_of(world: OperatorWorld, followers: StubFollowers) -> Any:
    reconciler: Any = world.reconciler
    reconciler._followers = followers
    reconciler._snapshots.newest = followers.newest
    return reconciler


def say(world: OperatorWorld, followers: StubFollowers, said: Progress) -> None:
    followers.now = ProgressSeen(progress=said, nonce=world.nonce, spacing_seconds=10)
    world.look()


def test_line_after_line_costs_a_write_every_ten_seconds_and_nothing_is_left_at_the_end() -> None:
    world, followers = a_world()
    before = len(world.cluster.done)
    for tick in range(200):
        world.now = at(10 + tick / 2)
        say(world, followers, Progress(step="running", cases_done=tick, cases_total=200, current_case=f"t::{tick}"))
    writes = world.cluster.done[before:]
    assert set(writes) == {"patch disttests nightly"}
    assert 9 <= len(writes) <= 10, "in 100 seconds"
    assert world.status["progress"]["casesDone"] > 170
    assert (world.status["phase"], world.status["message"]) == ("Running", "")
    assert followers.targets[-1] is not None
    world.finish()
    world.look()
    assert world.status["verdict"] == "Passed"
    assert "progress" not in world.status
    assert followers.targets[-1] is None
    world.now += timedelta(seconds=60)
    say(world, followers, SAID)
    assert "progress" not in world.status


def test_what_is_no_more_so_is_taken_out() -> None:
    world, followers = a_world()
    say(world, followers, SAID)
    assert world.status["progress"]["currentCase"] == "t.py::test_c"
    world.now = at(60)
    say(world, followers, LATER)
    assert "currentCase" not in world.status["progress"]
    assert world.status["progress"]["failures"] == []


def test_between_attempts_there_is_none() -> None:
    world = OperatorWorld(retries={"infrastructure": 1})
    followers = StubFollowers()
    world.reconciler = reconciler_of(world, followers)
    world.look()
    world.pods(**RUNNING)
    world.look()
    say(world, followers, SAID)
    assert "progress" in world.status
    world.lose_a_node()
    world.look()
    assert world.status["attempts"][0]["number"] == 1
    assert "progress" not in world.status


@pytest.mark.parametrize("problem", ["refuses_in_status", "prunes_in_status"])
def test_a_cluster_that_rejects_progress_gets_one_request_and_the_run_continues(problem: str) -> None:
    world, followers = a_world()
    getattr(world.cluster, problem).add("progress")
    say(world, followers, SAID)
    assert followers.muted == [KEY]
    asked = len(world.cluster.statuses)
    for second in range(30, 90, 5):
        world.now = at(second)
        say(world, followers, Progress(step="running", cases_done=second))
    assert len(world.cluster.statuses) == asked
    world.cluster.refuses_in_status.clear()  # removing what is not there is no problem
    world.finish()
    world.look()
    assert world.status["verdict"] == "Passed"


def test_a_write_that_conflicts_with_another_undoes_nothing() -> None:
    """The verdict of another operator, which this one has not seen."""
    world, followers = a_world()
    body = world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    ended = {"verdict": "Cancelled", "reason": "Cancelled", "message": "m", "phase": "Finished"}
    world.cluster.put(Kind.RUN, {**body, "status": {**body["status"], **ended}})
    followers.now = ProgressSeen(progress=SAID, nonce=world.nonce, spacing_seconds=10)
    asyncio.run(world.reconciler.reconcile(KEY))
    assert world.cluster.statuses_refused == [{"progress"}]
    assert world.status["verdict"] == "Cancelled"
    assert "progress" not in world.status


def test_the_log_of_the_leader_is_followed_by_the_secret_of_its_attempt() -> None:
    world, followers = a_world()
    assert followers.targets[-1] == FollowTarget(namespace="gpu-ci", pod="pod-0", uid="pod-0", nonce=world.nonce)
