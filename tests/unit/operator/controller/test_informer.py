import asyncio

import pytest

from disttest_operator.cache.cached_run import Key
from disttest_operator.controller.informer import STALLED_SECONDS, Informer, WatchHealth
from disttest_operator.core.api.api_errors import ApiServerError
from disttest_operator.core.api.resources import Kind
from disttest_operator.kubernetes.api_session import ApiRequest
from disttest_operator.kubernetes.ports import WATCHED
from disttest_operator.metrics import Metrics
from tests.support.fakes.world import OperatorWorld

KEY = Key(kind=Kind.RUN, namespace="gpu-ci", name="nightly")


class Setting:
    """A cluster with one run, and caches that no watch fills."""

    def __init__(self, *namespaces: str, kinds: tuple[Kind, ...] = WATCHED) -> None:
        self.world = OperatorWorld()
        self.added: list[Key] = []
        self.clock_seconds = 0.0
        self.health = WatchHealth(namespaces, monotonic=lambda: self.clock_seconds)
        self.informer = Informer(
            cluster=self.world.cluster,
            caches=self.world.caches,
            namespaces=namespaces,
            add=self.added.append,
            clock=self.world.clock,
            health=self.health,
            metrics=Metrics(self.world.caches, version="1", speaks=lambda: False),
            kinds=kinds,
            catch_up_seconds=0.0,
        )

    def once(self) -> None:
        asyncio.run(self.informer._resync())


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


def test_an_object_that_cannot_be_read_is_left_out_and_the_others_are_not(setting: Setting) -> None:
    setting.world.cluster.put(Kind.JOB, {"metadata": {"name": "no-job", "namespace": "gpu-ci"}})
    setting.once()
    assert setting.health.synced.is_set()
    assert setting.added[-1] == KEY


def test_a_lost_deletion_event_is_corrected_by_a_list(setting: Setting) -> None:
    setting.once()
    del setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    setting.once()
    assert setting.world.caches.run("gpu-ci", "nightly") is None


def test_a_watch_that_does_not_report_what_a_list_has_is_a_problem_until_its_next_event(setting: Setting) -> None:
    setting.once()
    body = setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    setting.world.cluster.put(Kind.RUN, body | {"status": {"phase": "Running"}})
    setting.once()
    run = setting.world.caches.run("gpu-ci", "nightly")
    assert run is not None
    assert run.test.status["phase"] == "Running", "healed from the list"
    assert setting.health.problems() == ["watch of disttests does not report objects that lists contain"]
    setting.health.note_event(Kind.RUN, "gpu-ci")
    assert setting.health.problems() == []


def test_changes_in_the_gap_of_a_restarted_watch_are_read_from_a_list(setting: Setting) -> None:
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


def test_a_comparison_queues_only_unfinished_runs(setting: Setting) -> None:
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
        raise ApiServerError("no answer")

    monkeypatch.setattr(setting.world.cluster, "list", fail)
    with pytest.raises(ApiServerError):
        setting.once()
    assert setting.world.cluster.gap.is_set()
    assert not setting.health.synced.is_set()


def test_a_watch_that_does_not_restart_has_stalled(setting: Setting) -> None:
    for kind in WATCHED:
        setting.health.note_request(ApiRequest(verb="watch", resource=kind.resource), "200")
    assert setting.health.all_started.is_set()
    setting.clock_seconds = STALLED_SECONDS + 1
    for kind in set(WATCHED) - {Kind.RUN}:
        setting.health.note_request(ApiRequest(verb="watch", resource=kind.resource), "200")
    setting.health.note_request(ApiRequest(verb="watch", resource="disttests"), "429")
    assert setting.health.problems() == [f"watch of disttests has not restarted for {STALLED_SECONDS + 1:.0f} s"]


def test_of_several_namespaces_each_is_listed_and_no_other() -> None:
    setting = Setting("gpu-ci", "empty")
    body = setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    foreign = body | {"metadata": body["metadata"] | {"namespace": "foreign", "uid": "another"}}
    setting.world.cluster.put(Kind.RUN, foreign)
    setting.once()
    assert setting.world.caches.run("gpu-ci", "nightly") is not None
    assert setting.world.caches.run("foreign", "nightly") is None
    del setting.world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    setting.once()
    assert setting.world.caches.run("gpu-ci", "nightly") is None, "pruned"


def test_of_several_namespaces_each_has_watches_that_must_begin_and_move() -> None:
    setting = Setting("a", "b")

    def start(*namespaces: str) -> None:
        for kind in WATCHED:
            for namespace in namespaces:
                request = ApiRequest(verb="watch", resource=kind.resource, namespace=namespace)
                setting.health.note_request(request, "200")

    start("a")
    assert not setting.health.all_started.is_set()
    start("b")
    assert setting.health.all_started.is_set()
    setting.clock_seconds = STALLED_SECONDS + 1
    start("a")
    assert setting.health.problems()[0] == f"watch of disttests in b has not restarted for {STALLED_SECONDS + 1:.0f} s"
    start("b")
    setting.health.note_lagging(Kind.RUN, "a")
    setting.health.note_event(Kind.RUN, "b")
    assert setting.health.problems() == ["watch of disttests in a does not report objects that lists contain"]


def test_a_kind_without_permission_is_neither_listed_nor_waited_for() -> None:
    setting = Setting(kinds=tuple(kind for kind in WATCHED if kind is not Kind.CRON_JOB))
    setting.world.cluster.refuses_lists = {Kind.CRON_JOB}
    setting.health.exclude(Kind.CRON_JOB)
    for kind in set(WATCHED) - {Kind.CRON_JOB}:
        setting.health.note_request(ApiRequest(verb="watch", resource=kind.resource), "200")
    assert setting.health.all_started.is_set()
    setting.once()
    setting.once()
    assert setting.health.synced.is_set()
    setting.clock_seconds = STALLED_SECONDS + 1
    assert len(setting.health.problems()) == len(WATCHED) - 1
