"""Files written for torch's own harness run unmodified: every family of its classes, on one node and on two."""

from pathlib import Path

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from tests.integration.runner.upstream import upstream_table
from tests.support.gangs.gang import AgentGang, case, make_plan, only_suite
from tests.support.paths import TESTS

ROOT = TESTS / "data"
FILES = ("processes", "continuous", "threads", "tensors", "rpc", "plain")


def upstream(*files: str, select: str = "") -> SuitePlan:
    paths = tuple(f"upstream/test_{file}.py" for file in files)
    return SuitePlan(name="-".join(files), root=str(ROOT), files=paths, select=select)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((1, 2), id="1 node x 2 ranks", marks=pytest.mark.soak),
        pytest.param((2, 1), id="2 nodes x 1 rank"),
    ],
)
def gang(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AgentGang:
    """Nodes have different folders for temporary files, as pods do: what ranks share there is bridged, or missed."""
    nodes, ranks = request.param
    folder = tmp_path_factory.mktemp("upstream")
    own = {node: {"TMPDIR": str(tmp_path_factory.mktemp(f"node-{node}"))} for node in range(nodes)}
    plan = make_plan(upstream(*FILES), nodes=nodes, ranks=ranks, run_seconds=200)
    gang = AgentGang(plan, folder, own=own)
    gang.run()
    return gang


@pytest.fixture(scope="module")
def report(gang: AgentGang) -> Report:
    return gang.report()


def test_every_case_ends_as_the_table_says(report: Report, gang: AgentGang) -> None:
    found = {
        upstream_table.name(one.id): (
            one.outcome,
            f"{one.message}\n{gang.text if one.outcome is Outcome.ERRORED else ''}",
        )
        for one in only_suite(report).cases
    }
    assert upstream_table.differences(found) == []


@pytest.mark.parametrize(
    "name", ["test_fails_while_the_other_waits", "TestThreads::test_fails_on_rank_1", "test_1_fails_on_rank_1"]
)
def test_the_rank_that_failed_is_blamed_and_no_other(report: Report, name: str) -> None:
    (found,) = [one for one in only_suite(report).cases if one.id.endswith(name)]
    assert found.ranks == (1,)


def test_a_peer_that_waits_for_a_failed_rank_is_not_waited_for_to_the_deadline(report: Report) -> None:
    assert case(report, "test_fails_while_the_other_waits").seconds < 10


def test_a_case_without_a_gang_fails_on_rank_0_alone(report: Report) -> None:
    assert case(report, "test_fails").ranks == (0,)


def test_ids_are_relative_to_the_root(report: Report) -> None:
    assert all(one.id.startswith("upstream/test_") for one in only_suite(report).cases)


def test_select_chooses_cases(tmp_path: Path) -> None:
    report = AgentGang(make_plan(upstream("plain", select="add or one"), nodes=1), tmp_path).run()
    assert [one.id.split("::")[-1] for one in only_suite(report).cases] == ["test_add", "test_world_of_one"]
    assert report.verdict is Verdict.PASSED


def test_a_pattern_without_files_is_named(tmp_path: Path) -> None:
    report = AgentGang(
        make_plan(SuitePlan(name="gone", root=str(ROOT), files=("upstream/tset_*.py",)), nodes=1), tmp_path
    ).run()
    suite = only_suite(report)
    assert (suite.verdict, suite.reason) == (Verdict.ERRORED, Reason.COLLECTION_FAILED)
    assert "matches 'upstream/tset_*.py'" in suite.message


@pytest.mark.soak
def test_classes_of_the_harness_run_in_folders_too(tmp_path: Path) -> None:
    """As a ConfigMap is mounted; there a case without a gang runs on every rank, since plain files ask for one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("test_continuous.py", "test_plain.py"):
        (folder / name).write_text((ROOT / "upstream" / name).read_text())
    suite = SuitePlan(name="mine", directory=str(folder), select="sum_factor_1 or add or fails")
    report = AgentGang(make_plan(suite, nodes=1, run_seconds=200), tmp_path).run()
    outcomes = {one.id.split("::")[-1]: (one.outcome, one.ranks) for one in only_suite(report).cases}
    assert outcomes["test_sum_factor_1"] == (Outcome.PASSED, ())
    assert outcomes["test_add"] == (Outcome.PASSED, ())
    assert outcomes["test_fails"] == (Outcome.FAILED, (0, 1))
