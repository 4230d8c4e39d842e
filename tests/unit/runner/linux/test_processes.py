"""The command lines of processes that a case left running."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from disttest_runner.linux import processes


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Of process 7, which is in the middle of an exec."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cmdline").write_bytes(b"")
    (tmp_path / "7/stat").write_text("7 (a (b) c) S 1 7 7 0 -1")
    return tmp_path


def test_a_process_in_mid_exec_is_waited_for(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "EXEC_SECONDS", 20.0)
    done = threading.Timer(0.3, (proc / "7/cmdline").write_bytes, [b"sleep\x001000\x00"])
    done.start()
    assert processes.command(7, proc) == "sleep 1000"


def test_a_living_process_without_a_command_line_is_not_taken_for_ended(proc: Path) -> None:
    assert processes.command(7, proc) == "(no command line)"


@pytest.mark.parametrize("letter", ["Z", "X"])
def test_a_process_that_has_ended_has_none(letter: str, proc: Path) -> None:
    (proc / "7/stat").write_text(f"7 (sleep) {letter} 1 7 7 0 -1")
    assert processes.command(7, proc) == ""


def test_a_process_that_is_gone_has_none(proc: Path) -> None:
    assert processes.command(8, proc) == ""


def test_a_living_process_shows_its_own() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert processes.command(process.pid) == f"{sys.executable} -c input()"
