"""Where the zygote cannot be forked each rank is started in a new interpreter: suites end there as in forked ranks."""

from pathlib import Path

import pytest

from disttest_contract.gang import suites
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.report import Report
from tests.support.gangs.gang import AgentGang, builtin, make_plan, only_suite, outcomes

IN_NEW_INTERPRETERS = "[zygote] ranks start in new interpreters, which takes longer: the zygote has 2 threads"
# A thread in the zygote, as a module that is imported there may start one.
STARTS_A_THREAD = """
import sys, threading, time
if "disttest_runner.zygote.zygote" in " ".join(sys.orig_argv):
    threading.Thread(target=time.sleep, args=(10_000,), daemon=True).start()
"""
CASES = ("test_all_gather_coalesced_simple", "test_gather_full_group")  # each meets at the barrier of torch's harness
WHOLE_SECONDS = 1500  # a deadline for compiled suites on a busy machine


@pytest.fixture
def unforkable(tmp_path: Path) -> dict[str, str]:
    """Environment of agents whose zygotes find forks unsafe."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(STARTS_A_THREAD)
    return {"PYTHONPATH": str(hooks)}


def test_ranks_start_in_new_interpreters_where_forking_would_not_be_safe(
    tmp_path: Path, unforkable: dict[str, str]
) -> None:
    """Our adapter is in place in each of them."""
    suite = SuitePlan(name="c10d-spawn", builtin="c10d-spawn", select=" or ".join(CASES))
    plan = make_plan(suite, nodes=1, rendezvous_seconds=300, case_seconds=60, run_seconds=400)
    gang = AgentGang(plan, tmp_path, environ=unforkable)
    report = gang.run(430)
    assert IN_NEW_INTERPRETERS in gang.text
    assert report.verdict is Verdict.PASSED, gang.text
    assert outcomes(only_suite(report)) == dict.fromkeys(CASES, Outcome.PASSED)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(suites.BUILTIN))
def test_a_built_in_suite_ends_as_in_forked_ranks(name: str, tmp_path: Path, unforkable: dict[str, str]) -> None:
    def run(folder: Path, environ: dict[str, str]) -> tuple[Report, str]:
        folder.mkdir()
        plan = make_plan(builtin(name), nodes=1, rendezvous_seconds=300, case_seconds=300, run_seconds=WHOLE_SECONDS)
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}  # both compile
        gang = AgentGang(plan, folder, environ=environ | cache)
        return gang.run(WHOLE_SECONDS + 30), gang.text

    (separate, text), (forked, forked_text) = run(tmp_path / "separate", unforkable), run(tmp_path / "forked", {})
    assert IN_NEW_INTERPRETERS in text
    assert "start in new interpreters" not in forked_text
    assert separate.verdict is Verdict.PASSED, text
    assert outcomes(only_suite(separate)) == outcomes(only_suite(forked))
