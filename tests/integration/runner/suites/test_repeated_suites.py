"""Cases of the built-in suites end as they did the first time when they run again in the same ranks."""

from dataclasses import replace
from pathlib import Path

import pytest

from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.gang.suites import BUILTIN
from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.report import Report
from tests.support.gangs.gang import AgentGang, make_plan, only_suite

SHORT = "test_barrier or in_two_groups or of_objects or test_bandwidth and 4KiB and (all_reduce or pairs)"
RUN_SECONDS = 2400  # against hanging for ever


def plan_of(suite: SuitePlan, *, turns: int = 2, until_fail: bool = False) -> RunPlan:
    plan = make_plan(suite, nodes=1, case_seconds=300, run_seconds=RUN_SECONDS)
    return replace(plan, repeat=turns, until_fail=until_fail)


def check_turns(report: Report, text: str, *, turns: int = 2) -> None:
    """Each turn has the outcomes of the first, and none needed new processes."""
    assert report.verdict is Verdict.PASSED, text
    found = {case.id: case.outcome for case in only_suite(report).cases}
    first = {name: outcome for name, outcome in found.items() if "#" not in name}
    for turn in range(2, turns + 1):
        assert {name: found[f"{name}#{turn}"] for name in first} == first
    assert len(found) == turns * len(first)


@pytest.mark.parametrize("until_fail", [False, True], ids=["repeat", "until-fail"])
def test_collectives_pass_in_each_of_three_turns(until_fail: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter
    suite = SuitePlan(name="collectives", builtin="collectives", select=SHORT)
    gang = AgentGang(plan_of(suite, turns=3, until_fail=until_fail), tmp_path)
    report = gang.run()
    check_turns(report, gang.text, turns=3)
    assert report.generations == 1, "ranks were replaced"


MEMORY = """
from disttest_runner.suites.collectives import bandwidth

turns = []

def usable_bytes(gang):
    turns.append(1)
    return 0 if len(turns) == 1 and gang.rank == 1 else 1 << 30

bandwidth.usable_bytes = usable_bytes
"""


def test_memory_that_was_too_small_in_the_first_turn_is_counted_again_in_the_second(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_bandwidth.py").write_text("from disttest_runner.suites.collectives.bandwidth import *\n")
    (suite / "conftest.py").write_text(MEMORY)
    env = (("COLLECTIVES_SIZES", "4K"), ("COLLECTIVES_ITERATIONS", "2"))
    plan = plan_of(SuitePlan(name="mine", directory=str(suite), select="all_reduce", env=env))
    report = AgentGang(plan, tmp_path).run()
    assert [case.outcome for case in only_suite(report).cases] == [Outcome.NOT_RUN, Outcome.PASSED]


@pytest.mark.soak
@pytest.mark.parametrize("until_fail", [False, True], ids=["repeat", "until-fail"])
@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_every_built_in_suite_passes_twice_in_the_same_ranks(name: str, until_fail: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter
    environ = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    plan = plan_of(SuitePlan(name=name, builtin=name), until_fail=until_fail)
    gang = AgentGang(plan, tmp_path, environ=environ)
    check_turns(gang.run(RUN_SECONDS), gang.text)
