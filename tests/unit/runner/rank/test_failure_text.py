"""Failed assertions are explained in full, unless that would take long, and without hints for a command line."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from disttest_runner.compat import override
from disttest_runner.rank.failure_text import CI_VARIABLES, FullDiffs, is_small, without_hints
from disttest_runner.rank.rank import OPTIONS

SOURCE = """
def test_small():
    assert list(range(40)) == [*range(20), 99, *range(21, 40)]

def test_same():
    assert {"a": 1, "b": 2, "c": 3} == {"a": 1, "b": 2, "c": 4}

def test_large():
    assert [n * 0.1 for n in range(150)] == [n * 0.7 + 1 for n in range(150)]

def test_nested():
    assert [[n % 7] * 3 for n in range(50)] == [[n % 5] * 3 for n in range(50)]

def test_environment():
    import os
    assert [name for name in ("CI", "BUILD_NUMBER") if name in os.environ] == ["no such variable"]
"""


class Messages:
    """Keeps pytest's texts of failed cases."""

    def __init__(self) -> None:
        self.by_case: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.by_case[report.nodeid.partition("::")[2]] = without_hints(report.longreprtext)


@pytest.fixture(scope="module", params=["", "CI", "BUILD_NUMBER"], ids=["no CI", "GitLab", "Jenkins"])
def variable(request: pytest.FixtureRequest) -> Iterator[str]:
    """What a CI system sets, by which pytest knows it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CI_VARIABLES:
            patch.delenv(name, raising=False)
        if request.param:
            patch.setenv(request.param, "true")
        yield request.param


@pytest.fixture(scope="module")
def messages(variable: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("assertions")
    (folder / "test_compared_by_pytest.py").write_text(SOURCE)
    found = Messages()
    where = ["--import-mode=importlib", "--rootdir", str(folder), "-c", "/dev/null", str(folder)]
    assert pytest.main([*OPTIONS, *where], plugins=[found, FullDiffs()]) == pytest.ExitCode.TESTS_FAILED
    return found.by_case


def test_no_message_names_an_option_of_pytest(messages: dict[str, str]) -> None:
    assert sorted(messages) == ["test_environment", "test_large", "test_nested", "test_same", "test_small"]
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


@pytest.mark.parametrize("case", ["test_large", "test_nested"])
def test_large_values_are_not_compared_line_by_line(messages: dict[str, str], case: str) -> None:
    """It takes cubic time: some thousand lines take hours."""
    assert "Full diff" not in messages[case]


def test_cases_see_the_variables_of_the_ci_system(messages: dict[str, str], variable: str) -> None:
    assert f"assert {[variable] if variable else []} == ['no such variable']" in messages["test_environment"]
    assert os.environ.get(variable, "true") == "true"


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
