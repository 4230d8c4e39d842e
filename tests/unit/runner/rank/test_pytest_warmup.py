"""The pytest session of a zygote before it forks: it must run no code of users and leave no trace."""

import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from disttest_runner.rank import pytest_overhead

OPTIONS = ("-s", "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler")


def state() -> list[object]:
    return [
        list(sys.path),
        dict(os.environ),
        list(sys.meta_path),
        list(warnings.filters),
        {name for name in sys.modules if name.startswith("test_rehearsed")},
        (sys.excepthook, sys.unraisablehook),
        [signal.getsignal(number) for number in range(1, 32)],
        len(list(Path("/proc/self/fd").iterdir())),
        Path.cwd(),
    ]


def test_a_rehearsal_leaves_nothing_behind() -> None:
    assert pytest_overhead.rehearse(OPTIONS)  # the first one imports
    before = state()
    assert pytest_overhead.rehearse(OPTIONS)
    assert state() == before


def test_no_code_of_a_user_runs_in_a_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_of_a_user.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTEST_PLUGINS", "plugin_of_a_user")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    assert pytest_overhead.rehearse(OPTIONS)
    assert not (tmp_path / "ran").exists()
    assert os.environ["PYTEST_ADDOPTS"] == "--no-such-option"


def test_a_rehearsal_is_left_out_where_no_file_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    assert not pytest_overhead.rehearse(OPTIONS)
