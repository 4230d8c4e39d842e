"""Idle ledgers are deleted, and a wrong clock alone deletes none."""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from disttest_operator.cache.cache import Cache
from disttest_operator.core.api.api_errors import ConflictError
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.api.resources import Kind
from disttest_operator.kubernetes.ports import WATCHED
from disttest_operator.series.retention import PAUSE_SECONDS, LedgerExpiry
from tests.support.builders.cron_jobs import cron_job_body
from tests.support.builders.runs import at
from tests.support.fakes.fake_cluster import FakeCluster
from tests.support.fakes.world import SERIES as ADHOC
from tests.support.fakes.world import OperatorWorld, live, run_body

DAYS = 90
DAY_SECONDS = 86400
SECOND = timedelta(seconds=1)
LAST = at(0)
OVER = LAST + timedelta(days=DAYS) + SECOND


class Setting:
    """A series whose last run finished long ago. Watches report everything before each check."""

    def __init__(self, *names: str, idle_days: int = DAYS, **status: Any) -> None:
        self.cluster = FakeCluster()
        self.now = self.cluster.server_time = OVER
        self.monotonic_seconds = 0.0
        usual = {"runCount": 7, "lastCompletionTime": LAST.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.names = names or ("nightly",)
        for name in self.names:
            meta = {"name": name, "namespace": "gpu-ci", "uid": f"uid-of-{name}"}
            self.cluster.put(Kind.SERIES, {"metadata": meta, "status": usual | status})
        self.caches = Cache(Defaults(image="runner:1"))
        self.expiry = LedgerExpiry(
            cluster=self.cluster,
            caches=self.caches,
            clock=lambda: self.now,
            idle_days=idle_days,
            monotonic=lambda: self.monotonic_seconds,
        )

    def watch(self) -> None:
        for (kind, _, _), body in list(self.cluster.objects.items()):
            if kind in WATCHED:
                self.caches.put(kind, body, self.now)

    def look(self) -> None:
        """At each series."""
        for name in self.names:
            asyncio.run(self.expiry.check("gpu-ci", name))

    @property
    def left(self) -> list[str]:
        self.watch()
        self.look()
        return [name for kind, _, name in self.cluster.objects if kind is Kind.SERIES]

    def put_run(self, namespace: str = "gpu-ci", **status: Any) -> None:
        body = run_body(series="nightly") | {"status": status}
        body["metadata"] |= {"namespace": namespace}
        self.cluster.put(Kind.RUN, body)


def test_a_series_whose_last_run_is_long_ago_goes_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    with caplog.at_level(logging.WARNING):
        assert setting.left == []
    assert setting.cluster.done == ["delete disttestseries nightly"]
    assert setting.caches.series() == []
    [line] = [record.getMessage() for record in caplog.records]
    assert line == (
        "series gpu-ci/nightly: deleted its ledger of 7 runs, the last of them finished at "
        "2026-11-21T02:00:00+00:00 (--series-idle-days 90)"
    )


@pytest.mark.parametrize(
    ("now", "stays"),
    [(OVER - SECOND, True), (LAST - SECOND, True), (OVER, False)],
    ids=["to the second", "a clock that is behind", "a second later"],
)
def test_it_stays_as_long_as_the_days_are_not_over(now: datetime, *, stays: bool) -> None:
    setting = Setting()
    setting.now = setting.cluster.server_time = now
    assert bool(setting.left) is stays


@pytest.mark.parametrize(
    "status",
    [
        {"pending": [{"uid": "u", "name": "n"}]},
        {"lastCompletionTime": None},
        {"lastCompletionTime": "long ago"},
    ],
    ids=["a run may not know its verdict", "no run has finished", "a time that is none"],
)
def test_a_ledger_that_may_be_in_use_stays(status: dict[str, Any]) -> None:
    assert Setting(**status).left == ["nightly"]


@pytest.mark.parametrize(
    "status", [{}, {"verdict": "Passed", "phase": "Finished"}], ids=["without a verdict", "finished"]
)
def test_a_series_with_a_run_that_is_still_there_stays(status: dict[str, Any]) -> None:
    setting = Setting()
    setting.put_run(**status)
    assert setting.left == ["nightly"]


def test_a_run_of_the_same_series_in_another_namespace_keeps_nothing() -> None:
    setting = Setting()
    setting.put_run(namespace="other")
    assert setting.left == []


@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "not yet watched"])
def test_a_series_with_a_cronjob_stays_even_if_that_is_suspended(*, is_watched: bool) -> None:
    setting = Setting()
    setting.watch()
    setting.cluster.put(Kind.CRON_JOB, cron_job_body(suspend=True))
    if is_watched:
        setting.watch()
    setting.look()
    assert setting.cluster.done == []


def test_without_permission_for_cronjobs_nothing_is_deleted_and_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setting = Setting("nightly", "weekly")
    setting.cluster.refuses_lists = {Kind.CRON_JOB}
    assert setting.left == ["nightly", "weekly"]
    assert setting.left == ["nightly", "weekly"]
    assert [record.getMessage() for record in caplog.records] == [
        "series gpu-ci/nightly is idle but cannot be deleted (logged only once): GET /cronjobs: 403 forbidden"
    ]


def test_with_zero_days_a_ledger_is_never_deleted() -> None:
    setting = Setting(idle_days=0)
    assert setting.left == ["nightly"]
    assert setting.cluster.reads == []


def test_our_clock_alone_deletes_nothing() -> None:
    """It jumps ahead by a year; the API server's does not."""
    setting = Setting()
    setting.cluster.server_time = LAST + timedelta(days=1)
    setting.now = LAST + timedelta(days=366)
    assert setting.left == ["nightly"]
    setting.cluster.server_time = None
    assert setting.left == ["nightly"]


def test_a_clock_that_is_wrong_everywhere_deletes_one_ledger_per_hour() -> None:
    setting = Setting("a", "b", "c")
    setting.now = setting.cluster.server_time = LAST + timedelta(days=366)
    assert setting.left == ["b", "c"]
    setting.monotonic_seconds = PAUSE_SECONDS - 1
    assert setting.left == ["b", "c"]
    setting.monotonic_seconds = PAUSE_SECONDS
    assert setting.left == ["c"]
    setting.now = setting.cluster.server_time = LAST + timedelta(days=1)
    setting.monotonic_seconds = 9 * PAUSE_SECONDS
    assert setting.left == ["c"], "the clock is right again"


def test_of_several_idle_series_only_one_is_deleted_at_a_time() -> None:
    setting = Setting("a", "b", "c")
    setting.watch()

    async def together() -> None:
        await asyncio.gather(*(setting.expiry.check("gpu-ci", name) for name in setting.names))

    asyncio.run(together())
    assert setting.cluster.done == ["delete disttestseries a"]


def test_a_ledger_that_was_written_meanwhile_is_not_deleted() -> None:
    setting = Setting()
    setting.watch()
    body = setting.cluster.objects[Kind.SERIES, "gpu-ci", "nightly"]
    setting.cluster.put(Kind.SERIES, body)
    with pytest.raises(ConflictError):
        setting.look()
    assert setting.cluster.done == []


def test_a_series_is_checked_for_expiry_when_it_is_reconciled() -> None:
    world = OperatorWorld(ttlSecondsAfterFinished=60)
    world.series_idle_days = DAYS
    world.start()
    live(world)
    world.now = world.cluster.server_time = at((DAYS + 1) * DAY_SECONDS)
    world.look(ADHOC)
    assert world.ledger, "its run is still there"
    world.look()
    world.look(ADHOC)
    assert not world.ledger
    assert world.cluster.done[-2:] == ["delete disttests nightly", "delete disttestseries adhoc"]
