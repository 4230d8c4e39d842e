"""Everything that depends on torch, with the oldest and the newest that is supported."""

from pathlib import Path

import pytest

from disttest_contract.gang import suites
from disttest_contract.outcomes import BAD, Outcome, Reason, Verdict
from tests.integration.runner.suites import c10d_table
from tests.integration.runner.upstream import upstream_table
from tests.integration.runner.upstream.test_upstream import FILES, upstream
from tests.soak.conftest import Torch
from tests.support.gangs.gang import AgentGang, builtin, make_plan, only_suite

# What is golden beyond two ranks of the newest torch, which every test run checks.
TABLES = {("oldest", 2): "c10d_spawn_gloo_oldest.json", ("newest", 4): "c10d_spawn_gloo_4_ranks.json"}


def test_every_family_of_the_harness_ends_as_the_table_says(torch: Torch, tmp_path: Path) -> None:
    plan = make_plan(upstream(*FILES), nodes=1, ranks=2, run_seconds=400)
    gang = AgentGang(plan, tmp_path, python=torch.python, environ=torch.environ)
    report = gang.run()
    found = {upstream_table.name(one.id): (one.outcome, one.message) for one in only_suite(report).cases}
    assert found, f"{only_suite(report).message}\n{gang.text}"
    assert upstream_table.differences(found) == []


@pytest.mark.parametrize(("nodes", "ranks"), [(1, 2), (2, 2)], ids=["1 x 2", "2 x 2"])
def test_torchs_own_suite_has_no_bad_case(torch: Torch, tmp_path: Path, nodes: int, ranks: int) -> None:
    report = c10d_table.run(tmp_path, nodes=nodes, ranks=ranks, python=torch.python, environ=torch.environ)
    suite = only_suite(report)
    assert [(one.id, one.message) for one in suite.cases if one.outcome in BAD or one.outcome is Outcome.NOT_RUN] == []
    assert report.verdict is Verdict.PASSED
    if table := TABLES.get((torch.name, nodes * ranks)):
        assert c10d_table.table(suite.cases) == c10d_table.golden(table)


@pytest.mark.parametrize("name", sorted(suites.BUILTIN.keys() - {"c10d-spawn"}))
def test_a_builtin_suite_runs(torch: Torch, tmp_path: Path, name: str) -> None:
    plan = make_plan(builtin(name), nodes=2, ranks=2, case_seconds=120, run_seconds=1700)
    gang = AgentGang(plan, tmp_path, python=torch.python, environ=torch.environ)
    suite = only_suite(gang.run(1750))
    assert suite.reason is Reason.ALL_CASES_PASSED, f"{suite.message}\n{gang.text}"
