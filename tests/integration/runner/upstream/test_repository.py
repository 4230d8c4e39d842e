"""`disttest run PATH` in an ordinary repository: its pytest configuration, its conftest.py files and its package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.report import Report

CONFIGURATION = """
[tool.pytest.ini_options]
minversion = "8"
addopts = "-ra --no-such-option"
pythonpath = ["src"]
testpaths = ["tests"]
markers = ["slow: takes minutes"]
filterwarnings = ["error"]
"""
CASES = """
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from mine import answer


@pytest.mark.slow
def test_sum(process_group, gang, measure, of_tests):
    one = torch.ones(1, device=gang.device)
    dist.all_reduce(one)
    assert (one.item(), answer(), of_tests) == (gang.world_size, 42, "conftest.py of tests")


def test_where(pytestconfig):
    assert pytestconfig.rootpath == Path.cwd()


def test_warnings_are_errors():
    import warnings
    with pytest.raises(UserWarning):
        warnings.warn("no")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": CONFIGURATION,
        "src/mine/__init__.py": "def answer(): return 42\n",
        "tests/conftest.py": "import pytest\n@pytest.fixture\ndef of_tests(): return 'conftest.py of tests'\n",
        "tests/dist/test_x.py": CASES,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "disttest_cli.main", "run", *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode, done.stdout + done.stderr


def test_our_fixtures_raise_no_warning_where_warnings_are_errors(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_it.py").write_text("def test_it(gang, process_group, measure): pass\n")
    code, output = run(tmp_path, "test_it.py")
    assert code == 0, output


def test_a_repository_is_tested_as_pytest_does(repository: Path) -> None:
    code, output = run(repository, "tests/dist/test_x.py")
    assert code == 0, output
    report = Report.loads((repository / "disttest-report-test-x.json").read_bytes())
    ids = ["test_x.py::test_sum", "test_x.py::test_where", "test_x.py::test_warnings_are_errors"]
    assert [case.id for case in report.suites[0].cases] == ids
    assert report.verdict is Verdict.PASSED
    assert {case.outcome for case in report.suites[0].cases} == {Outcome.PASSED}


def test_ids_of_pytest_choose_cases_too(repository: Path) -> None:
    code, output = run(repository, "tests/dist/test_x.py", "--case", "tests/dist/test_x.py::test_where", "--ranks=1")
    assert code == 0, output
    assert "1 of 1 cases passed" in output


def test_an_expression_without_a_match_is_named_with_the_number_of_cases(repository: Path) -> None:
    code, output = run(repository, "tests/dist/test_x.py", "-k", "bandwith", "--ranks=1")  # codespell:ignore bandwith
    assert code == 30, output
    assert output.splitlines()[-3] == (
        "Errored (NoCasesCollected): test-x: the suite has no cases: none of 3 matches 'bandwith' (-k, `select`)"
    )


def test_the_last_line_has_the_cause_of_a_failed_collection(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import torch\nimport no_such_module\n")
    code, output = run(tmp_path, "test_it.py", "--ranks=1")
    assert code == 30, output
    assert output.splitlines()[-3] == (
        "Errored (CollectionFailed): test-it: collecting failed on rank 0 on local-0: "
        "test_it.py: ModuleNotFoundError: No module named 'no_such_module'"
    )


def test_a_test_without_our_fixtures_that_uses_the_group_gets_the_fixture_it_needs_as_message(tmp_path: Path) -> None:
    source = "import torch\nimport torch.distributed as dist\ndef test_it(): dist.all_reduce(torch.ones(1))\n"
    (tmp_path / "test_it.py").write_text(source)
    code, output = run(tmp_path, "test_it.py", "--ranks=1")
    assert code == 10, output
    assert "Add the fixture `process_group` to its arguments" in output
