"""What the compiled suites go by: whether compiled code was run, and that torch never runs code uncompiled instead."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from disttest_runner.suites import compiling  # noqa: E402 - it imports torch

pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.fixture
def forgotten() -> None:
    torch._dynamo.reset()


def twice(values: Any) -> Any:
    return values * 2


def test_runs_of_compiled_graphs_are_counted_and_eager_ones_are_not() -> None:
    backend = compiling.CountingBackend()
    called = torch.compile(twice, backend=backend)
    called(torch.ones(2))
    called(torch.ones(2))
    twice(torch.ones(2))
    assert backend.calls == 2


def test_what_is_compiled_too_often_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "RECOMPILE_LIMIT", 1)
    called = torch.compile(twice, backend=compiling.CountingBackend())
    with compiling.never_eager():
        called(torch.ones(2))
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            called(torch.ones(2, dtype=torch.int32))


CASES = """
import pytest
import torch
from disttest_runner.suites.compiling import compiler_of_mode

resets, runs = [], []

@pytest.fixture(autouse=True)
def watched(monkeypatch):
    monkeypatch.setattr(torch._dynamo, "reset", lambda: resets.append(1))

@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("mode", ["replicate", "shard"])
def test_first(mode, optimizer, compiler_of_mode):
    assert len(resets) == {"replicate": 1, "shard": 2}[mode]

@pytest.mark.parametrize("mode", ["shard"])
def test_second(mode, compiler_of_mode):
    runs.append(mode)
    assert len(resets) == 2 + len(runs)
"""


class Again:
    """Repeats the last case, as --repeat does: the same node id twice."""

    def __init__(self) -> None:
        self.passed = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in (*session.items, session.items[-1]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed


def test_cases_of_one_test_and_mode_share_what_was_compiled_and_a_repeated_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(CASES)
    where = ["-p", "no:terminal", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(tmp_path)]
    again = Again()
    assert pytest.main([*where, "-c", "/dev/null", str(tmp_path)], plugins=[again]) == pytest.ExitCode.OK
    assert again.passed == 6
