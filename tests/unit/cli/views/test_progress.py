"""Progress of a run while a command waits for its verdict: in a log, and in the live view."""

import io
import itertools
from typing import Any

import pytest
from rich.console import Console

from disttest_cli.views.live import GangShape, LiveView
from disttest_cli.views.status_lines import PROGRESS_SECONDS, LiveProgress, ProgressLines, progress_of
from disttest_contract.outcomes import Outcome
from tests.support.builders import bodies
from tests.support.fakes.canned import FakeTime

STATUS: dict[str, Any] = bodies.going_on()["status"]
FAILURE = "failed  collectives: correctness.py::test_all_reduce (ranks 8-11 on gpu-2): element 5 is 3.0"


def far(done: int, **changes: Any) -> dict[str, Any]:
    """The status so many cases later."""
    return STATUS | changes | {"progress": STATUS["progress"] | {"casesDone": done}}


def lines_of(time: FakeTime) -> tuple[ProgressLines, list[str]]:
    said: list[str] = []
    return ProgressLines(say=said.append, now=time.clock.now), said


def test_the_status_says_what_the_leader_said() -> None:
    progress = progress_of(STATUS)
    assert progress is not None
    assert (progress.cases_done, progress.cases_total, progress.nodes_joined) == (120, 412, 2)
    assert progress.counts[Outcome.PASSED] == 118
    [failure] = progress.failures
    assert (failure.outcome, failure.ranks, failure.nodes) == (Outcome.FAILED, "8-11", ("gpu-2",))


def test_a_failure_with_an_outcome_of_a_newer_operator_is_printed_as_errored() -> None:
    progress = progress_of({"phase": "Running", "progress": {"suite": None, "failures": [{"outcome": "newer"}]}})
    assert progress is not None
    assert (progress.step, progress.suite, progress.failures[0].outcome) == ("Running", "", Outcome.ERRORED)


@pytest.mark.parametrize("odd", [None, 7, [], {}, {"failures": [None, {"outcome": "new"}], "casesDone": "x"}])
def test_odd_progress_is_no_end_of_it(odd: object) -> None:
    lines, said = lines_of(FakeTime())
    lines.see({"phase": "Running", "progress": odd})
    assert said[0] == "Running"


class TestLines:
    def test_a_failure_is_printed_when_it_first_appears(self, time: FakeTime) -> None:
        lines, said = lines_of(time)
        for done in (120, 121, 122):
            lines.see(far(done))
        assert [" ".join(line.split()) for line in said if line.startswith("failed")] == [" ".join(FAILURE.split())]

    def test_another_attempt_may_fail_in_the_same_way(self, time: FakeTime) -> None:
        lines, said = lines_of(time)
        for attempt in (1, 2):
            lines.see(far(120, attempt=attempt))
        assert sum(line.startswith("failed") for line in said) == 2

    def test_progress_is_printed_every_half_minute(self, time: FakeTime) -> None:
        lines, said = lines_of(time)
        for done in range(0, 100, 10):
            lines.see(far(done))
            time.seconds += PROGRESS_SECONDS / 3
        assert [line.split()[0] for line in said if "/412 cases" in line] == ["0/412", "30/412", "60/412", "90/412"]

    def test_a_run_that_stands_still_says_nothing(self, time: FakeTime) -> None:
        lines, said = lines_of(time)
        for _ in range(5):
            lines.see(far(7))
            time.seconds += 100
        assert sum("7/412" in line for line in said) == 1

    def test_before_there_are_cases_those_who_joined_are_counted(self, time: FakeTime) -> None:
        lines, said = lines_of(time)
        lines.see({"phase": "Running", "progress": {"step": "joining", "nodesJoined": 1}})
        assert said == ["Running", "1 node joined"]


class TestLive:
    def screen(self, *statuses: dict[str, Any]) -> str:
        """What was written; the foot is drawn by hand, where a thread would do it."""
        console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
        view = LiveView(console, GangShape(nodes=2, ranks_per_node=8, suites=2), clock=itertools.count().__next__)
        progress = LiveProgress(view=view)
        for status in statuses:
            progress.see(status)
            console.print(view)
        written = console.file.getvalue()  # type: ignore[attr-defined]
        assert isinstance(written, str)
        return written

    def test_a_run_that_waits_says_for_what_above_and_its_phase_at_the_foot(self) -> None:
        said, foot, again = self.screen(bodies.waiting()["status"], bodies.waiting()["status"]).splitlines()
        assert said == "Queued: 2 nodes with 8 nvidia.com/gpu each are needed, and 1 has them"
        assert [line.split()[0] for line in (foot, again)] == ["Queued"] * 2
        assert "16 ranks" in foot

    def test_an_active_run_has_failures_above_and_the_running_case_below(self) -> None:
        first, *rest = self.screen(STATUS).splitlines()
        assert " ".join(first.split()) == " ".join(FAILURE.split())
        assert "120/412 cases" in rest[0]
        assert "c10d-spawn: t.py::TestStore::test_\\x1b]0;title\\x07wait" in rest[1]

    def test_what_became_of_an_attempt_stays_above_and_nothing_of_it_at_the_foot(self) -> None:
        queued = {"phase": "Queued", "attempt": 2, "message": "attempt 1 has lost gpu-2"}
        *_, said, foot = self.screen(STATUS, queued).splitlines()
        assert said == "Queued, attempt 2: attempt 1 has lost gpu-2"
        assert foot.startswith("Queued ")
        assert "412" not in foot
