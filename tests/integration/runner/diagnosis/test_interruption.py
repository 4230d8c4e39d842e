"""A run that ends while a case hangs, by `--timeout`, `--case-timeout` or Ctrl-C: the case is named and diagnosed."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from disttest_cli import errors
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, Report
from tests.support.gangs.gang import MARK, marked, wait_for

HANG = """
import time, torch
import torch.distributed as dist

def test_good(process_group): pass

def test_stuck(gang, process_group):
    if gang.rank == 1:
        print("asleep", flush=True)
        time.sleep(1000)
    dist.all_reduce(torch.ones(1))

def test_never(): pass
"""
WHO_WAITS = (
    "rank 0 waits in all_reduce number 1 of the default group; rank 1 on local-0 has not joined it: "
    "rank 1 is at test_stuck (test_hang.py:"
)
LONGEST_SECONDS = 120  # to import torch and to start ranks, on a busy machine


@dataclass
class InterruptedCommand:
    """`disttest run` of a file in a folder, and what it prints."""

    process: subprocess.Popen[str]
    folder: Path
    mark: str

    @property
    def text(self) -> str:
        return (self.folder / f"{self.mark}.log").read_text()

    def wait_until_stuck(self) -> None:
        """Both ranks are in the case: one sleeps, and the other one waits for it, or soon will."""
        wait_for(lambda: "[rank 1] asleep" in self.text, "no rank fell asleep", LONGEST_SECONDS, lambda: self.text)

    def report(self) -> Report:
        return Report.loads((self.folder / "report.json").read_bytes())

    def check_nothing_left(self) -> None:
        wait_for(lambda: not marked(self.mark), "processes left", 3, lambda: str(marked(self.mark)))


Start = Callable[..., InterruptedCommand]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    commands = []

    def _start(source: str, *arguments: str) -> InterruptedCommand:
        (tmp_path / "test_hang.py").write_text(source)
        mark = secrets.token_hex(8)
        with (tmp_path / f"{mark}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "disttest_cli.main", "run", "test_hang.py", "--report=report.json", *arguments],
                cwd=tmp_path,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        commands.append(InterruptedCommand(process, tmp_path, mark))
        return commands[-1]

    yield _start
    for command in commands:
        command.process.kill()
        command.process.wait()
        for pid, _ in marked(command.mark):
            os.kill(pid, signal.SIGKILL)


def check_interrupted(report: Report, cause: str) -> None:
    good, stuck, never = report.suites[0].cases
    assert (good.outcome, never.outcome) == (Outcome.PASSED, Outcome.NOT_RUN)
    assert (stuck.outcome, stuck.is_interrupted, never.is_interrupted) == (Outcome.NOT_RUN, True, False)
    assert stuck.message.startswith("still running after ")
    assert f" s when {cause}; {WHO_WAITS}" in stuck.message
    assert "in test_stuck" in stuck.stacks[0]
    assert "in test_stuck" in stuck.stacks[1]
    assert report.message.endswith("; still running: test-hang: test_hang.py::test_stuck")
    assert (report.counts.total, report.counts[Outcome.NOT_RUN]) == (3, 2)


def test_a_hang_that_the_timeout_of_the_run_ends_is_diagnosed(start: Start) -> None:
    """The clock runs from the start: on a busy machine torch alone may take a short timeout."""
    report, text = None, ""
    seconds = 8
    while report is None or len(report.failures) + len(report.interrupted) == 0:
        assert seconds <= LONGEST_SECONDS, text
        command = start(HANG, f"--timeout={seconds}")
        assert command.process.wait(seconds + LONGEST_SECONDS) == 10, command.text
        command.check_nothing_left()
        report, text, seconds = command.report(), command.text, seconds * 2
    assert (report.verdict, report.reason) == (Verdict.TIMED_OUT, Reason.RUN_TIMEOUT)
    check_interrupted(report, "the run timed out")
    assert "test-hang: test_hang.py::test_stuck: interrupted after" in text
    assert "If it is only slow, increase --timeout; to end slow" in text


def test_ctrl_c_diagnoses_the_case_that_hangs(start: Start) -> None:
    command = start(HANG)
    command.wait_until_stuck()
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(30) == 20, command.text
    command.check_nothing_left()
    report = command.report()
    assert (report.verdict, report.reason) == (Verdict.CANCELLED, Reason.CANCELLED)
    check_interrupted(report, "the run was interrupted")
    assert "To stop immediately, press Ctrl-C again" in command.text


def test_a_second_ctrl_c_ends_everything_at_once(start: Start) -> None:
    """Also while a rank cannot answer and the first one waits for it."""
    command = start(HANG, "--nodes=2")
    command.wait_until_stuck()
    [*_, zygote] = [pid for pid, line in marked(command.mark) if "disttest_runner.zygote.zygote" in line]
    os.kill(zygote, signal.SIGSTOP)
    command.process.send_signal(signal.SIGINT)
    wait_for(lambda: "Ctrl-C again" in command.text, "the first was not noticed", 20, lambda: command.text)
    started = time.monotonic()
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(20) == errors.INTERRUPTED, command.text
    assert time.monotonic() - started < 5
    assert not (command.folder / "report.json").exists()
    command.check_nothing_left()


def test_a_case_timeout_reports_the_hang_and_the_next_case_runs(start: Start) -> None:
    source = "import time\ndef test_stuck(): time.sleep(1000)\ndef test_next(): pass\n"
    command = start(source, "--case-timeout=2")
    assert command.process.wait(2 * LONGEST_SECONDS) == 10, command.text
    cases: tuple[CaseResult, ...] = command.report().suites[0].cases
    assert [case.outcome for case in cases] == [Outcome.HUNG, Outcome.PASSED]
    assert "ranks 0, 1 are at test_stuck (test_hang.py:2)" in cases[0].message
    assert "If the case is only slow, increase --case-timeout" in command.text
