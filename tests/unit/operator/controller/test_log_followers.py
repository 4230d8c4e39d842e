"""Following logs of a fake cluster: no failure there reaches a reconcile."""

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest

from disttest_contract.transport.progress import MARK, Progress, seal
from disttest_operator.cache.cached_run import Key
from disttest_operator.controller.log_followers import LOG_BYTES, MAX_STREAMS, TAIL_LINES, FollowTiming, LogFollowers
from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.status.progress import FollowTarget
from tests.support.fakes.fake_cluster import FakeCluster

AT_ONCE = FollowTiming(
    reconcile_seconds=0, opening_seconds=0, first_pause_seconds=0, longest_pause_seconds=0, stable_seconds=60
)
NONCE = "00ff"
Log = Sequence[str | Exception]  # what a connection tells, and how it breaks; after the last one nothing comes any more
TURNS = 2000  # of the loop, in which what is to happen must have happened


def a_key(number: int = 0) -> Key:
    return Key(kind=Kind.RUN, namespace="gpu-ci", name=f"run-{number}")


def a_target(number: int = 0, nonce: str = NONCE) -> FollowTarget:
    return FollowTarget(namespace="gpu-ci", pod=f"leader-{number}", uid=f"u-{number}", nonce=nonce)


def a_line(done: int, nonce: str = NONCE) -> str:
    return Progress(step="running", cases_done=done).to_line(nonce)


class FakeLogs(FakeCluster):
    """Each connection to a pod's log takes the next of its logs; where there is none it waits for ever."""

    def __init__(self, **logs: Sequence[Log]) -> None:
        super().__init__()
        self.log_parts = {pod.replace("_", "-"): list(rest) for pod, rest in logs.items()}
        self.opened: list[str] = []
        self.open = 0
        self.most_open = 0
        self.asked: list[tuple[str, int, int]] = []

    async def follow_log(  # type: ignore[explicit-override]  # typing.override came with 3.12
        self, namespace: str, pod: str, *, prefix: str, tail_lines: int, limit_bytes: int
    ) -> AsyncGenerator[str, None]:
        assert namespace == "gpu-ci"
        self.asked.append((prefix, tail_lines, limit_bytes))
        self.opened.append(pod)
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            rest = self.log_parts.get(pod)
            for said in rest.pop(0) if rest else ():
                if isinstance(said, Exception):
                    raise said
                yield said
                await asyncio.sleep(0)
            if not rest:
                await asyncio.Event().wait()
        finally:
            self.open -= 1


def play(
    logs: FakeLogs,
    scene: Callable[[LogFollowers, list[Key]], Awaitable[None]],
    *,
    limit: int = MAX_STREAMS,
    timing: FollowTiming = AT_ONCE,
) -> list[Key]:
    """The keys that were planned for a look."""
    looks: list[Key] = []
    counts: list[int] = []

    async def scenario() -> None:
        followers = LogFollowers(logs, lambda key, _: looks.append(key), note=counts.append, limit=limit, timing=timing)
        await scene(followers, looks)
        await followers.close()
        assert max(counts, default=0) <= limit
        assert logs.open == 0, "every connection is closed"

    asyncio.run(scenario())
    return looks


async def until(probe: Callable[[], object]) -> None:
    for _ in range(TURNS):
        if probe():
            return
        await asyncio.sleep(0)
    pytest.fail("it did not happen")


async def a_while() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def done(followers: LogFollowers, number: int = 0) -> int:
    newest = followers.newest(a_key(number))
    return newest.progress.cases_done if newest else -1


def test_the_newest_line_is_kept_and_a_reconcile_is_planned() -> None:
    logs = FakeLogs(leader_0=[[a_line(1), a_line(2), a_line(3)]])

    async def scene(followers: LogFollowers, looks: list[Key]) -> None:
        assert followers.newest(a_key()) is None
        followers.follow(a_key(), a_target())
        followers.follow(a_key(), a_target())  # said again at each look
        await until(lambda: done(followers) == 3)
        await until(lambda: looks)

    assert set(play(logs, scene)) == {a_key()}
    assert logs.opened == ["leader-0"]
    assert logs.asked == [(a_line(1).partition("{")[0], TAIL_LINES, LOG_BYTES)]


def test_lines_without_new_progress_plan_no_reconcile() -> None:
    others = [a_line(9, "beef"), f"{MARK} {seal(NONCE)} {{", f"{MARK} {seal(NONCE)} []", "x" * 5000]
    logs = FakeLogs(leader_0=[[a_line(1), *others, a_line(1), a_line(1)]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await until(lambda: done(followers) == 1)
        await a_while()
        assert done(followers) == 1

    assert play(logs, scene) == [a_key()]


def test_many_lines_plan_one_reconcile_at_a_time() -> None:
    logs = FakeLogs(leader_0=[[a_line(number) for number in range(500)]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await until(lambda: done(followers) == 499)

    slow = FollowTiming(reconcile_seconds=3600, opening_seconds=0, first_pause_seconds=0, longest_pause_seconds=0)
    assert play(logs, scene, timing=slow) == []


@pytest.mark.parametrize(
    "interruption",
    [
        [],
        [ApiServerError("GET log: 502")],
        [RequestRefusedError("GET log: 403")],
        [a_line(1), ApiServerError("cut off")],
    ],
    ids=["ended", "no answer", "no right to", "cut off"],
)
def test_a_log_that_ends_during_its_run_is_reopened(interruption: Log) -> None:
    logs = FakeLogs(leader_0=[interruption, interruption, [a_line(5)]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await until(lambda: done(followers) == 5)

    play(logs, scene)
    assert logs.opened == ["leader-0"] * 3


def test_a_missing_permission_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    refused: list[Log] = [[RequestRefusedError("GET log: 403 forbidden")]] * 5
    logs = FakeLogs(leader_0=[*refused, [a_line(1)]], leader_1=[*refused, [a_line(1)]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        for number in range(2):
            followers.follow(a_key(number), a_target(number))
        await until(lambda: done(followers, 0) == done(followers, 1) == 1)

    play(logs, scene)
    [said] = caplog.messages
    assert "progress is not shown" in said
    assert "403 forbidden" in said


def test_pauses_grow_while_connections_end_early() -> None:
    timing = FollowTiming(reconcile_seconds=0, opening_seconds=0, first_pause_seconds=0.002, longest_pause_seconds=3600)
    logs = FakeLogs(leader_0=[[]] * 50)

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await after(lambda: len(logs.opened) >= 4)
        started = len(logs.opened)
        await asyncio.sleep(0.01)
        assert len(logs.opened) <= started + 1

    play(logs, scene, timing=timing)


async def after(probe: Callable[[], object]) -> None:
    """As `until`, where time must pass."""
    for _ in range(TURNS):
        if probe():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it did not happen")


def test_the_log_is_no_longer_followed_when_the_run_ends() -> None:
    logs = FakeLogs(leader_0=[[a_line(1)]])

    async def scene(followers: LogFollowers, looks: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await until(lambda: logs.open == 1 and looks)
        followers.follow(a_key(), None)
        assert followers.newest(a_key()) is None
        await until(lambda: logs.open == 0)
        assert followers.followed == 0

    play(logs, scene)


def test_after_the_last_step_the_report_is_not_read_here() -> None:
    last = Progress(step="finished", cases_done=9).to_line(NONCE)
    logs = FakeLogs(leader_0=[[a_line(1), last, a_line(2)], [a_line(3)]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await until(lambda: done(followers) == 9 and logs.open == 0)
        await a_while()
        assert done(followers) == 9

    play(logs, scene)
    assert logs.opened == ["leader-0"]


def test_the_log_of_another_attempt_is_followed_and_the_old_progress_is_forgotten() -> None:
    logs = FakeLogs(leader_0=[[a_line(7)]], leader_1=[[a_line(1, "beef")]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await until(lambda: done(followers) == 7)
        followers.follow(a_key(), a_target(1, "beef"))
        assert followers.newest(a_key()) is None
        await until(lambda: done(followers) == 1)
        newest = followers.newest(a_key())
        assert newest
        assert newest.nonce == "beef"
        await until(lambda: logs.open == 1)

    play(logs, scene)


def test_of_too_many_the_first_are_followed_and_the_others_when_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    logs = FakeLogs(**{f"leader_{number}": [[a_line(number)]] for number in range(10)})

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        for number in range(10):
            followers.follow(a_key(number), a_target(number))
        await until(lambda: logs.open == 4)
        await a_while()
        assert [done(followers, number) for number in range(10)] == [0, 1, 2, 3, -1, -1, -1, -1, -1, -1]
        followers.follow(a_key(2), None)
        followers.follow(a_key(9), None)
        await until(lambda: done(followers, 4) == 4)
        await a_while()
        assert logs.open == 4
        assert done(followers, 5) == -1

    play(logs, scene, limit=4)
    assert logs.most_open <= 5, "one of them on its way out"
    assert [message for message in caplog.messages if "the maximum of" in message] == caplog.messages
    assert len(caplog.messages) == 1


def test_the_more_are_followed_the_further_apart_they_are_written() -> None:
    logs = FakeLogs(**{f"leader_{number}": [[a_line(1)]] for number in range(100)})

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        for number in range(100):
            followers.follow(a_key(number), a_target(number))
        await until(lambda: done(followers, 99) == 1)
        newest = followers.newest(a_key())
        assert newest
        assert newest.spacing_seconds == 20

    play(logs, scene)


def test_a_muted_log_is_not_followed_until_another_attempt() -> None:
    logs = FakeLogs(leader_0=[[a_line(1)], [a_line(2)]], leader_1=[[a_line(3, "beef")]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        followers.follow(a_key(), a_target())
        await until(lambda: done(followers) == 1)
        followers.mute(a_key())
        followers.follow(a_key(), a_target())
        await until(lambda: logs.open == 0)
        await a_while()
        assert followers.newest(a_key()) is None
        assert followers.followed == 0
        followers.follow(a_key(), a_target(1, "beef"))
        await until(lambda: done(followers) == 3)

    play(logs, scene)
    assert logs.opened == ["leader-0", "leader-1"]


def test_after_the_end_nothing_is_followed() -> None:
    logs = FakeLogs(leader_0=[[a_line(1)]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        await followers.close()
        followers.follow(a_key(), a_target())
        followers.follow(a_key(), None)
        await a_while()
        assert followers.followed == 0

    assert play(logs, scene) == []
    assert logs.opened == []


def test_a_bug_in_the_operator_costs_a_run_only_its_progress(caplog: pytest.LogCaptureFixture) -> None:
    logs = FakeLogs(leader_0=[[a_line(1), ZeroDivisionError("a fault")]], leader_1=[[a_line(1)]])

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        for number in range(2):
            followers.follow(a_key(number), a_target(number))
        await until(lambda: done(followers, 1) == 1 and logs.open == 1)
        assert done(followers, 0) == 1, "what was said stays said"

    with caplog.at_level(logging.ERROR):
        play(logs, scene)
    assert any("no longer followed" in message for message in caplog.messages)


def test_connections_are_made_one_after_the_other() -> None:
    """After a change of operators there are hundreds to be made."""
    timing = FollowTiming(reconcile_seconds=0, opening_seconds=0.01)
    logs = FakeLogs()
    times: list[float] = []

    async def scene(followers: LogFollowers, _: list[Key]) -> None:
        loop = asyncio.get_running_loop()
        for number in range(5):
            followers.follow(a_key(number), a_target(number))
        for count in range(1, 6):
            await after(lambda: len(logs.opened) >= count)  # noqa: B023  # awaited at once
            times.append(loop.time())

    play(logs, scene, timing=timing)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert sum(gaps) >= 0.035
