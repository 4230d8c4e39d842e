import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.lease import NAME, LeaderElector, LeaseTiming, since_boot
from disttest_runner.compat import override
from tests.support import patience
from tests.support.fakes.fake_cluster import FakeCluster

SLOWER = patience.slowdown()
FAST = LeaseTiming(duration_seconds=0.6 * SLOWER, renew_seconds=0.1 * SLOWER, retry_seconds=0.05 * SLOWER)
DEADLINE_SECONDS = 5 * SLOWER


class SlowToAnswer(FakeCluster):
    """What is replaced is stored at once; the answer comes later."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written, self.may_answer = asyncio.Event(), asyncio.Event()

    @override
    async def replace(self, kind: Kind, manifest: Manifest) -> Body:
        body = await super().replace(kind, manifest)
        self.is_written.set()
        await self.may_answer.wait()
        return body


def elector(cluster: FakeCluster, identity: str) -> LeaderElector:
    return LeaderElector(cluster, namespace="sys", identity=identity, timing=FAST)


async def running(*electors: LeaderElector) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(one.run()) for one in electors]


async def one_that_is_active() -> tuple[FakeCluster, LeaderElector, asyncio.Task[None]]:
    cluster = FakeCluster()
    mine = elector(cluster, "mine")
    (task,) = await running(mine)
    await mine.is_active.wait()
    return cluster, mine, task


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await scenario()

    asyncio.run(limited())


def holder(cluster: FakeCluster) -> str:
    spec: dict[str, str] = cluster.objects[Kind.LEASE, "sys", NAME]["spec"]
    return spec["holderIdentity"]


def test_one_of_two_operators_is_active_and_the_other_takes_over_when_it_ends() -> None:
    async def scenario() -> None:
        cluster = FakeCluster()
        first, second = elector(cluster, "first"), elector(cluster, "second")
        (one,) = await running(first)
        await first.is_active.wait()
        (two,) = await running(second)
        await asyncio.sleep(FAST.duration_seconds * 2)
        assert not second.is_active.is_set(), "the first renews"
        one.cancel()
        await second.is_active.wait()
        assert holder(cluster) == "second"
        two.cancel()

    play(scenario)


def test_a_released_lease_is_free_at_once() -> None:
    async def scenario() -> None:
        cluster = FakeCluster()
        first, second = elector(cluster, "first"), elector(cluster, "second")
        (one,) = await running(first)
        await first.is_active.wait()
        one.cancel()
        await first.release()
        assert not first.is_active.is_set()
        async with asyncio.timeout(FAST.duration_seconds / 2):
            (two,) = await running(second)
            await second.is_active.wait()
        two.cancel()

    play(scenario)


def test_an_operator_that_released_the_lease_does_not_take_it_again() -> None:
    async def scenario() -> None:
        cluster, mine, task = await one_that_is_active()
        await mine.release()
        await task
        assert not mine.is_active.is_set()
        assert holder(cluster) == ""

    play(scenario)


@pytest.mark.parametrize("begins", ["renews", "takes"])
def test_a_write_under_way_does_not_keep_the_lease_from_being_released(begins: str) -> None:
    async def scenario() -> None:
        cluster = SlowToAnswer()
        if begins == "takes":
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
            cluster.put(Kind.LEASE, {"metadata": {"namespace": "sys", "name": NAME}, "spec": spec})
        mine = elector(cluster, "mine")
        (task,) = await running(mine)
        await cluster.is_written.wait()
        leaving = asyncio.create_task(mine.release())
        await asyncio.sleep(0)
        cluster.may_answer.set()
        await leaving
        await task
        assert holder(cluster) == ""
        assert not mine.is_active.is_set()

    play(scenario)


def test_an_operator_that_cannot_renew_stops_before_another_can_start() -> None:
    async def scenario() -> None:
        cluster, mine, task = await one_that_is_active()
        cluster.is_away = True
        async with asyncio.timeout(FAST.duration_seconds):
            await task
        assert not mine.is_active.is_set()

    play(scenario)


def test_a_server_that_does_not_answer_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster = SlowToAnswer()
        mine = elector(cluster, "mine")
        (task,) = await running(mine)
        await mine.is_active.wait()
        await task
        assert not mine.is_active.is_set()

    play(scenario)
    assert f"lease sys/disttest-operator: no answer within {FAST.answer_seconds:g} s" in caplog.messages
    assert (
        caplog.messages[-1] == f"lease sys/disttest-operator: lost: not renewed for more than {FAST.lost_seconds:g} s"
    )


def test_a_short_outage_changes_nothing() -> None:
    async def scenario() -> None:
        cluster, mine, task = await one_that_is_active()
        cluster.is_away = True
        await asyncio.sleep(FAST.lost_seconds / 4)
        cluster.is_away = False
        await asyncio.sleep(FAST.duration_seconds)
        assert mine.is_active.is_set()
        task.cancel()

    play(scenario)


def test_the_operator_stops_when_another_one_has_taken_the_lease(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster, mine, task = await one_that_is_active()
        body = cluster.objects[Kind.LEASE, "sys", NAME]
        cluster.put(Kind.LEASE, body | {"spec": body["spec"] | {"holderIdentity": "thief"}})
        await task
        assert not mine.is_active.is_set()
        assert holder(cluster) == "thief"

    play(scenario)
    assert caplog.messages == ["lease sys/disttest-operator: lost: another operator holds it, or it was deleted"]


def test_a_suspended_process_does_not_write_until_it_has_renewed() -> None:
    async def scenario() -> None:
        cluster, now = FakeCluster(), [100.0]
        mine = LeaderElector(cluster, namespace="sys", identity="mine", timing=FAST, monotonic=lambda: now[0])
        assert not mine.may_write(), "being the only operator is not enough"
        (task,) = await running(mine)
        await mine.is_active.wait()
        assert mine.may_write()
        now[0] += FAST.lost_seconds + 0.01
        assert mine.is_active.is_set(), "it has not found out"
        assert not mine.may_write()
        async with asyncio.timeout(FAST.duration_seconds):
            while not mine.may_write():  # noqa: ASYNC110  # a clock that is read has no event
                await asyncio.sleep(FAST.retry_seconds)
        task.cancel()

    play(scenario)


def test_the_clock_of_the_lease_goes_on_while_the_machine_sleeps() -> None:
    assert since_boot() >= time.monotonic() - 1.0


def test_the_holder_loses_the_lease_before_others_can_take_it() -> None:
    usual = LeaseTiming()
    assert (usual.duration_seconds, usual.renew_seconds) == (15, 5)
    assert usual.lost_seconds + usual.renew_seconds <= usual.duration_seconds
    assert pytest.approx(10) == usual.lost_seconds
