"""Suites that cannot be run: each is Errored with its reason, and the suites after it run all the same."""

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report, SuiteResult
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

GOOD = "def test_good(gang): assert gang.world_size == 4\n"
SOURCES = {
    "import-error": "import no_such_module\ndef test_a(): pass\n",
    "nothing": "def helper(): pass\n",
    "differs": """
import os, pytest
@pytest.mark.parametrize("one", [1, 2] if os.environ["RANK"] != "2" else [1, 3])
def test_a(one): pass
""",
    "dies": "import os\nif os.environ['RANK'] == '1':\n    os._exit(9)\ndef test_a(): pass\n",
    "unsupported": "import pytest\npytest.skip('not on this machine', allow_module_level=True)\n",
    "all-skipped": "import pytest\n@pytest.mark.skip(reason='later')\ndef test_a(): pass\n",
    "bad-conftest": GOOD,
    "good": GOOD,
}


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> AgentGang:
    folder = tmp_path_factory.mktemp("collecting")
    suites = [suite_of(folder / name, source, name=name) for name, source in SOURCES.items()]
    (folder / "bad-conftest" / "conftest.py").write_text("import no_such_plugin\n")
    missing = SuitePlan(name="no-folder", directory=str(folder / "no-such-folder"))
    gang = AgentGang(make_plan(missing, *suites), folder)
    gang.run()
    return gang


@pytest.fixture(scope="module")
def report(gang: AgentGang) -> Report:
    return gang.report()


def suite(report: Report, name: str) -> SuiteResult:
    (found,) = [one for one in report.suites if one.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("no-folder", Reason.COLLECTION_FAILED, "no-such-folder"),
        ("import-error", Reason.COLLECTION_FAILED, "No module named 'no_such_module'"),
        ("bad-conftest", Reason.COLLECTION_FAILED, "No module named 'no_such_plugin'"),
        ("nothing", Reason.NO_CASES_COLLECTED, "the suite has no cases"),
        ("differs", Reason.COLLECTION_DIFFERS, "rank 2 on local-1 collected different cases than rank 0: without"),
        ("dies", Reason.COLLECTION_FAILED, "rank 1 on local-0 exited with code 9 while collecting"),
        ("unsupported", Reason.NO_CASES_COLLECTED, "not on this machine"),
        ("all-skipped", Reason.NO_CASES_PASSED, "later"),
    ],
)
def test_a_suite_that_cannot_run_is_errored_with_its_reason(
    report: Report, name: str, reason: Reason, words: str
) -> None:
    found = suite(report, name)
    assert (found.verdict, found.reason) == (Verdict.ERRORED, reason)
    assert words in found.message


def test_the_difference_is_named(report: Report) -> None:
    message = suite(report, "differs").message
    assert "without test_it.py::test_a[2]; with test_it.py::test_a[3]" in message


def test_the_next_suite_runs_all_the_same(report: Report, gang: AgentGang) -> None:
    found = suite(report, "good")
    assert [case.outcome for case in found.cases] == [Outcome.PASSED], gang.text


def test_a_run_with_a_suite_that_could_not_run_is_errored(report: Report, gang: AgentGang) -> None:
    assert (report.verdict, report.reason) == (Verdict.ERRORED, Reason.COLLECTION_FAILED)
    assert gang.wait() == {0: 30, 1: 30}
