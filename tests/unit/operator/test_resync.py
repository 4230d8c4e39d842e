import asyncio

import pytest

from disttest_operator import resync
from disttest_operator.caches import Key
from disttest_operator.health import STALLED_SECONDS, Health
from disttest_operator.metrics import Metrics
from disttest_operator.ports import ClusterError, Kind
from disttest_operator.requests import Request
from tests.support.world import World

KEY = Key(kind=Kind.RUN, namespace="gpu-ci", name="nightly")


class Setting:
    """A cluster with one run, and caches that no watch fills."""

    def __init__(self) -> None:
        self.world = World()
        self.added: list[Key] = []
        self.clock_seconds = 0.0
        self.health = Health(monotonic=lambda: self.clock_seconds)
        self.resync = resync.Resync(
            self.world.cluster,
            self.world.caches,
            namespace="",
            add=self.added.append,
            clock=self.world.clock,
            health=self.health,
            metrics=Metrics(self.world.caches, version="1", speaks=lambda: False),
            catch_up_seconds=0.0,
        )

    def once(self) -> None:
        asyncio.run(self.resync._once())


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_the_first_list_fills_the_caches_and_makes_ready(setting: Setting) -> None:
    assert not setting.health.synced.is_set()
    setting.once()
    assert setting.health.synced.is_set()
    assert setting.added[-1] == KEY
    assert setting.world.caches.run("gpu-ci", "nightly") is not None
    assert setting.health.problems() == []


def test_a_lost_deletion_is_healed(setting: Setting) -> None:
    setting.once()
    del setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    setting.once()
    assert setting.world.caches.run("gpu-ci", "nightly") is None


def test_a_watch_that_does_not_tell_what_a_list_shows_is_reported_until_it_tells_something(setting: Setting) -> None:
    setting.once()
    body = setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    setting.world.cluster.put(Kind.RUN, body | {"status": {"phase": "Running"}})
    setting.once()
    run = setting.world.caches.run("gpu-ci", "nightly")
    assert run is not None
    assert run.test.status["phase"] == "Running", "healed from the list"
    assert setting.health.problems() == ["watch of disttests does not tell what lists show"]
    setting.health.note_event(Kind.RUN)
    assert setting.health.problems() == []


def test_what_happened_in_the_gap_of_a_watch_that_began_anew_is_taken_from_a_list(setting: Setting) -> None:
    setting.once()
    body = setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    setting.world.cluster.put(Kind.RUN, body | {"status": {"phase": "Running"}})
    setting.world.cluster.gap.set()
    setting.once()
    run = setting.world.caches.run("gpu-ci", "nightly")
    assert run is not None
    assert run.test.status["phase"] == "Running"
    assert setting.health.problems() == [], "the watch could not know it"
    assert not setting.world.cluster.gap.is_set()


def test_a_comparison_looks_again_at_what_is_not_finished_only(setting: Setting) -> None:
    setting.once()
    setting.added.clear()
    setting.once()
    assert setting.added == [KEY]
    body = setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    done = setting.world.cluster.put(Kind.RUN, body | {"status": {"verdict": "Passed"}})
    setting.world.caches.put(Kind.RUN, done, setting.world.now)
    setting.added.clear()
    setting.once()
    assert setting.added == []
    setting.world.cluster.gap.set()
    setting.once()
    assert set(setting.added) == {KEY}, "after a gap everything is looked at"


def test_a_gap_stays_until_the_list_was_read(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    setting.world.cluster.gap.set()

    async def fail(*_: object, **__: object) -> None:
        raise ClusterError("no answer")

    monkeypatch.setattr(setting.world.cluster, "list", fail)
    with pytest.raises(ClusterError):
        setting.once()
    assert setting.world.cluster.gap.is_set()
    assert not setting.health.synced.is_set()


def test_a_watch_that_is_not_begun_anew_has_stalled(setting: Setting) -> None:
    for kind in (Kind.RUN, Kind.SERIES, Kind.JOB, Kind.POD):
        setting.health.note_request(Request(verb="watch", resource=kind.resource), "200")
    assert setting.health.all_begun.is_set()
    setting.clock_seconds = STALLED_SECONDS + 1
    for kind in (Kind.SERIES, Kind.JOB, Kind.POD):
        setting.health.note_request(Request(verb="watch", resource=kind.resource), "200")
    setting.health.note_request(Request(verb="watch", resource="disttests"), "429")
    assert setting.health.problems() == [f"watch of disttests was begun {STALLED_SECONDS + 1:.0f} s ago"]
