"""The pace of progress lines: in time, rarely enough, and until the end of the longest run."""

import asyncio
import dataclasses

import pytest

from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult
from disttest_contract.transport.progress import Progress
from disttest_runner.compat import override
from disttest_runner.leader.progress_log import (
    LINE_SECONDS,
    LIVE_SECONDS,
    RENDEZVOUS_SECONDS,
    FailedCases,
    Pace,
    ProgressLog,
    gist_of,
)
from disttest_runner.output.log import PROGRESS_LINE_BYTES

NONCE = "00ff"
DAY = 86_400.0


@pytest.mark.parametrize("size_bytes", [200, 1500, 4096])
@pytest.mark.parametrize("seconds", [60.0, 3600.0, DAY])
def test_lines_that_come_whenever_they_may_last_for_the_whole_run(size_bytes: int, seconds: float) -> None:
    pace = Pace(started=100.0, ends=100.0 + seconds)
    now, count, longest = 100.0, 0, 0.0
    while now < 100.0 + seconds:
        pace.spend(size_bytes, now)
        assert pace.due - now >= LINE_SECONDS
        longest = max(longest, pace.due - now)
        now, count = pace.due, count + 1
    assert pace.left_bytes > 0
    assert longest <= max(LINE_SECONDS, 1.1 * seconds * size_bytes / PROGRESS_LINE_BYTES)


def test_what_cannot_wait_leaves_half_of_the_share_to_the_rest_of_the_run() -> None:
    pace = Pace(started=0.0, ends=DAY)
    now = 0.0
    while pace.urgent(now) == now:
        pace.spend(4096, now)
        now += 0.1
    assert pace.left_bytes > PROGRESS_LINE_BYTES * 0.45
    assert pace.urgent(now) == pace.due > now
    assert pace.urgent(DAY * 0.9) == DAY * 0.9, "what was left over is for what comes later"


class ProgressReader:
    """Of a run that begins now."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.lines: list[tuple[float, Progress]] = []
        self.now = Progress(step="joining")
        self.started = self.loop.time()
        pace = Pace(started=self.started, ends=self.started + 3600)
        self.progress_log = ProgressLog(pace, lambda: self.now, self.write, NONCE)

    def write(self, line: str) -> None:
        read = Progress.read(line, NONCE)
        assert read is not None
        self.lines.append((self.loop.time() - self.started, read))

    def change(self, **changes: object) -> None:
        self.now = dataclasses.replace(self.now, **changes)  # type: ignore[arg-type]  # fields of several types


class FakeClock(asyncio.SelectorEventLoop):
    """A loop whose time advances when it has nothing to do: hours take no time."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0
        self._select, self._selector.select = self._selector.select, self._wait  # type: ignore[attr-defined]

    @override
    def time(self) -> float:
        return getattr(self, "ahead", 0.0)

    def _wait(self, timeout: float | None) -> list[object]:
        self.ahead += timeout or 0.0
        return self._select(0)  # type: ignore[no-any-return]


def test_a_case_that_hangs_is_named_within_the_time_between_two_lines() -> None:
    async def run() -> None:
        watch = ProgressReader()
        watch.change(step="running", current_case="first")
        watch.progress_log.change_now()
        await asyncio.sleep(0.1)
        watch.change(current_case="hangs")
        watch.progress_log.change()
        await asyncio.sleep(100)
        assert [(round(at), one.current_case) for at, one in watch.lines] == [(0, "first"), (5, "hangs")]

    with asyncio.Runner(loop_factory=FakeClock) as runner:
        runner.run(run())


def test_hundreds_of_agents_that_join_within_a_second_are_one_line() -> None:
    async def run() -> None:
        watch = ProgressReader()
        watch.progress_log.change_now()
        for number in range(500):
            await asyncio.sleep(0.9 * RENDEZVOUS_SECONDS / 500)
            watch.change(nodes_joined=number + 1)
            watch.progress_log.change_now(RENDEZVOUS_SECONDS)
        await asyncio.sleep(60)
        assert [one.nodes_joined for _, one in watch.lines] == [0, 500]

    with asyncio.Runner(loop_factory=FakeClock) as runner:
        runner.run(run())


def test_thousands_of_cases_are_a_line_every_five_seconds_and_none_without_news() -> None:
    async def run() -> None:
        watch = ProgressReader()
        for number in range(6000):
            await asyncio.sleep(0.01)
            watch.change(cases_done=number + 1)
            watch.progress_log.change()
        await asyncio.sleep(1000)
        assert 12 <= len(watch.lines) <= 14
        assert watch.lines[-1][1].cases_done == 6000
        watch.progress_log.change()
        await asyncio.sleep(10)
        assert len(watch.lines) <= 14, "nothing was new"

    with asyncio.Runner(loop_factory=FakeClock) as runner:
        runner.run(run())


def a_case(name: str, outcome: Outcome = Outcome.FAILED, **more: object) -> CaseResult:
    return CaseResult(id=name, outcome=outcome, seconds=1, **more)  # type: ignore[arg-type]  # fields of several types


def test_the_newest_failures_are_in_the_line_without_those_that_passed_later() -> None:
    failures = FailedCases()
    for number in range(8):
        failures.note("mine", number, a_case(f"case{number}", ranks=(0, 1, 3), message="rank 0:\nE   assert 1 == 2"))
    failures.note("mine", 8, a_case("known", quarantined=True))
    failures.note("mine", 9, a_case("good", Outcome.PASSED))
    assert [one.case for one in failures.newest()] == ["case3", "case4", "case5", "case6", "case7"]
    failures.note("mine", 6, a_case("case6", Outcome.PASSED))
    failures.note("mine", 4, a_case("case4", Outcome.HUNG))
    assert [one.case for one in failures.newest()] == ["case2", "case3", "case5", "case7", "case4"]
    assert (failures.newest()[0].ranks, failures.newest()[0].message) == ("0-1,3", "assert 1 == 2")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("rank 1 on node-b:\n\ndef test():\n>   assert 1 == 2\nE   assert 1 == 2\nE   and more", "assert 1 == 2"),
        (
            "rank 3 on node-b was killed by SIGSEGV during the case\n(rank 0 aborted)",
            "rank 3 on node-b was killed by SIGSEGV during the case",
        ),
        ("", ""),
        ("x" * 5000, "x" * 128),
    ],
)
def test_the_line_of_a_message_with_most_information_is_shown(message: str, line: str) -> None:
    assert gist_of(message) == line


def test_of_a_log_that_is_not_kept_lines_come_often_however_long_the_run_may_be() -> None:
    pace = Pace.unbounded(now=7.0)
    for _ in range(1000):
        pace.spend(4096, 10 * DAY)
    assert pace.due == 10 * DAY + LIVE_SECONDS
    assert pace.urgent(11 * DAY) == 11 * DAY
