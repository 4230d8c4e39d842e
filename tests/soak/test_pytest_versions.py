"""The rank's pytest session with the oldest pytest that is supported and with the newest, which is the tests' own."""

import os
import sys
from pathlib import Path

import pytest

from disttest_contract.gang import suites
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from tests.support.gangs.gang import AgentGang, builtin, make_plan, suite_of
from tools import bootstrap

PACKAGES = Path(__file__).with_name("oldest_pytest.txt")
CASES = """
import warnings

import pytest

def test_sum(gang, process_group, measure): pass

def test_odd(gang):
    assert gang.rank != 1, "one is odd"

def test_warning():
    with pytest.raises(UserWarning):
        warnings.warn("an error here")

@pytest.mark.skip(reason="later")
def test_later(): pass
"""


@pytest.fixture(scope="session", params=["8.0.0", pytest.__version__])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def environ(version: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The oldest is in a folder before the newest on the path."""
    if version == pytest.__version__:
        return {}
    folder = tmp_path_factory.mktemp("pytest")
    install = (bootstrap.uv(), "pip", "install", "-q", "--require-hashes", "--no-deps", "--python", sys.executable)
    words = (*install, "--target", folder, "-r", PACKAGES)
    bootstrap.run(f"installing pytest {version}", *words, environment=bootstrap.uv_environment())
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def test_own_files_run_where_warnings_are_errors(version: str, environ: dict[str, str], tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite", CASES)
    (tmp_path / "suite" / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    gang = AgentGang(make_plan(suite), tmp_path, environ=environ)
    report = gang.run()
    assert report.versions["pytest"] == version, gang.text
    found = {case.id.partition("::")[2]: case for case in report.suites[0].cases}
    assert [case.outcome for case in found.values()] == [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.PASSED,
        Outcome.SKIPPED,
    ], gang.text
    assert "AssertionError: one is odd" in found["test_odd"].message


@pytest.mark.parametrize("name", ["collectives", "c10d-spawn"])
def test_a_builtin_suite_runs(name: str, version: str, environ: dict[str, str], tmp_path: Path) -> None:
    gang = AgentGang(make_plan(builtin(name), nodes=1, case_seconds=120, run_seconds=900), tmp_path, environ=environ)
    report = gang.run(950)
    assert report.versions["pytest"] == version, gang.text
    assert report.verdict is Verdict.PASSED, gang.text


def test_no_builtin_suite_raises_a_warning_when_it_is_collected(tmp_path: Path) -> None:
    """What pytest only warns of, its next version refuses."""
    plans = [SuitePlan(name=name, builtin=name, select="no_such_case") for name in sorted(suites.BUILTIN)]
    gang = AgentGang(
        make_plan(*plans, nodes=1, ranks=1, run_seconds=900), tmp_path, environ={"PYTEST_ADDOPTS": "-W error"}
    )
    report = gang.run(950)
    assert [(suite.name, suite.reason) for suite in report.suites] == [
        (plan.name, Reason.NO_CASES_COLLECTED) for plan in plans
    ], gang.text
    assert all("matches 'no_such_case'" in suite.message for suite in report.suites), gang.text
