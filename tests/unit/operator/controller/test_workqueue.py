import asyncio

from disttest_operator.controller.workqueue import BACKOFF_MAX_SECONDS, WorkQueue
from tests.support import patience


def test_a_key_waits_once_and_runs_again_if_it_was_added_meanwhile() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        assert len(queue) == 1
        assert await queue.take() == "a"
        queue.add("a")  # while it runs
        taker = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        assert not taker.done(), "never twice at a time"
        queue.done("a")
        assert await asyncio.wait_for(taker, patience.stretched(5)) == "a"
        queue.done("a")
        assert len(queue) == 0
        assert queue.idle.is_set()

    asyncio.run(scenario())


def test_the_backoff_of_one_key_affects_no_other_and_is_bounded() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        pauses = [queue.add_failed("bad") for _ in range(20)]
        assert pauses[0] < 0.1
        assert pauses[5] > pauses[0]
        assert max(pauses) <= BACKOFF_MAX_SECONDS * 1.2
        assert queue.add_failed("other") < 0.1
        queue.succeeded("bad", None)
        assert queue.add_failed("bad") < 0.1
        queue.close()

    asyncio.run(scenario())


def test_a_plan_replaces_the_plan_before_it() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 3600)
        queue.add_after("a", 0.0)
        assert await asyncio.wait_for(queue.take(), patience.stretched(5)) == "a"
        queue.done("a")
        queue.add_after("a", 0.0)
        queue.add("a")
        await queue.take()
        queue.succeeded("a", None)
        queue.done("a")
        await asyncio.sleep(0.01)
        assert len(queue) == 0, "success without a plan leaves none"

    asyncio.run(scenario())


def test_what_others_plan_for_a_key_while_it_runs_holds() -> None:
    """The current run may have read its data before the change."""

    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for again_seconds, planned_seconds in ((None, 0.0), (3600, 0.0), (0.0, 3600)):
            queue.add("a")
            await queue.take()
            queue.add_after("a", planned_seconds)
            queue.succeeded("a", again_seconds)
            queue.done("a")
            assert await asyncio.wait_for(queue.take(), patience.stretched(5)) == "a"
            queue.succeeded("a", None)
            queue.done("a")
        await asyncio.sleep(0.01)
        assert len(queue) == 0

    asyncio.run(scenario())


def test_a_closed_queue_returns_no_key() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        taker = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        queue.close()
        queue.add("a")
        await asyncio.sleep(0.01)
        assert not taker.done()
        taker.cancel()

    asyncio.run(scenario())
