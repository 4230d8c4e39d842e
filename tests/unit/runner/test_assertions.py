"""Failed assertions are explained in full, unless that would take long, and without hints for a command line."""

import time
from pathlib import Path

import pytest

from disttest_runner.assertions import FullDiffs, is_small, without_hints
from disttest_runner.compat import override
from disttest_runner.rank import OPTIONS

SOURCE = """
def test_small():
    assert list(range(40)) == [*range(20), 99, *range(21, 40)]

def test_same():
    assert {"a": 1, "b": 2, "c": 3} == {"a": 1, "b": 2, "c": 4}

def test_large():
    assert [n * 0.1 for n in range(3000)] == [n * 0.7 + 1 for n in range(3000)]

def test_nested():
    assert [[n % 7] * 30 for n in range(90)] == [[n % 5] * 30 for n in range(90)]
"""


class Messages:
    """Keeps what pytest says of failed cases."""

    def __init__(self) -> None:
        self.by_case: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.by_case[report.nodeid.partition("::")[2]] = without_hints(report.longreprtext)


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("assertions")
    (folder / "test_compared_by_pytest.py").write_text(SOURCE)
    found = Messages()
    where = ["--import-mode=importlib", "--rootdir", str(folder), "-c", "/dev/null", str(folder)]
    started = time.process_time()
    assert pytest.main([*OPTIONS, *where], plugins=[found, FullDiffs()]) == pytest.ExitCode.TESTS_FAILED
    assert time.process_time() - started < 20, "large values are compared line by line"
    return found.by_case


def test_no_message_names_an_option_of_pytest(messages: dict[str, str]) -> None:
    assert sorted(messages) == ["test_large", "test_nested", "test_same", "test_small"]
    assert [name for name, message in messages.items() if "-v" in message] == []


def test_a_small_difference_is_shown_whole(messages: dict[str, str]) -> None:
    lines = [line.split() for line in messages["test_small"].splitlines()]
    assert ["E", "-", "99,"] in lines
    assert ["E", "+", "20,"] in lines
    assert ["E", "39,"] in lines
    assert "Common items:" in messages["test_same"]


def test_of_a_large_one_the_first_difference_is_shown(messages: dict[str, str]) -> None:
    assert "At index 0 diff: 0.0 != 1.0" in messages["test_large"]
    assert len(messages["test_large"]) < 4000


@pytest.mark.parametrize("value", [1, "x" * 4096, [0] * 100, {"a": 1}, Path("/x")])
def test_what_is_small(value: object) -> None:
    assert is_small(value)


class Odd:
    @override
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", ["x" * 4097, [0] * 101, [[0] * 20] * 20, Odd()])
def test_what_is_not(value: object) -> None:
    assert not is_small(value)
