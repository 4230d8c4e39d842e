"""Every part of the process state that a case can change is noticed and restored."""

import logging
import os
import random
import signal
import sys
import threading
import timeit
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from disttest_runner.rank import case_isolation, process_state  # noqa: E402 - they import torch

MAX_READ_SECONDS = 0.0005  # 10 µs on a quiet machine; a part that costs a hundred times as much would be seen


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = process_state.read()
    yield
    process_state.restore(before)


def _gone(folder: Path) -> None:
    os.chdir(folder)
    folder.rmdir()


CHANGES: dict[str, tuple[str, Callable[[], object]]] = {
    "a variable set": ("environment", lambda: os.environ.update(LEFT="1")),
    "a variable deleted": ("environment", lambda: os.environ.pop("PATH")),
    "directory": ("working directory", lambda: os.chdir("/")),
    "umask": ("umask", lambda: os.umask(0o007)),
    "handler": ("signal handlers", lambda: signal.signal(signal.SIGUSR2, signal.SIG_IGN)),
    "mask": ("signal mask", lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})),
    "alarm": ("interval timer", lambda: signal.alarm(1000)),
    "module path": ("module path", lambda: sys.path.append("/left")),
    "filters": ("warnings filters", lambda: warnings.simplefilter("ignore")),
    "stdout": ("standard streams", lambda: setattr(sys, "stdout", None)),
    "recursion": ("recursion limit", lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1)),
    "excepthook": ("excepthook", lambda: setattr(threading, "excepthook", print)),
    "logging": ("logging", lambda: logging.disable(logging.CRITICAL)),
    "dtype": ("default dtype", lambda: torch.set_default_dtype(torch.float64)),
    "device": ("default device", lambda: torch.set_default_device("meta")),
    "gradients": ("gradient mode", lambda: torch._C._set_grad_enabled(False)),
    "deterministic": ("deterministic algorithms", lambda: torch.set_deterministic_debug_mode("warn")),
    "threads": ("threads of torch", lambda: torch.set_num_threads(torch.get_num_threads() + 1)),
}


@pytest.mark.parametrize(("part", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_seen_and_put_back(part: str, change: Callable[[], object]) -> None:
    before = process_state.read()
    change()
    assert process_state.restore(before) == [part]
    assert process_state.read() == before
    assert process_state.restore(before) == []


def test_every_part_but_the_trace_function_has_a_change() -> None:
    """A trace function would trace the test itself."""
    seen = {part for part, _ in CHANGES.values()}
    assert {part.name for part in process_state.PARTS} - seen == {"trace function"}


def test_a_directory_that_was_removed_is_left(tmp_path: Path) -> None:
    before = process_state.read()
    folder = tmp_path / "gone"
    folder.mkdir()
    _gone(folder)
    assert process_state.restore(before) == ["working directory"]


def test_pytest_s_own_variable_is_not_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    before = process_state.read()
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "something else")
    assert process_state.restore(before) == []


def test_reading_it_is_cheap() -> None:
    assert min(timeit.repeat(process_state.read, number=20, repeat=5)) / 20 < MAX_READ_SECONDS


def test_a_seed_is_the_same_whatever_was_drawn_before() -> None:
    case_isolation.seed(3)
    first = random.random(), float(torch.rand(1))  # noqa: S311 - no secret
    case_isolation.seed(3)
    assert (random.random(), float(torch.rand(1))) == first  # noqa: S311 - no secret
    case_isolation.seed(4)
    assert (random.random(), float(torch.rand(1))) != first  # noqa: S311 - no secret
