"""Cases that ended badly are tried again in a fresh generation; results of earlier tries are kept."""

import time
from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from tests.support import patience
from tests.support.gangs.gang import AgentGang, case, make_plan, only_suite, suite_of

SUITE = """
import os, pathlib, time
import pytest, torch
import torch.distributed as dist

FOLDER = pathlib.Path({folder!r})

def tries(name, gang):
    "Generations in which this rank has started the case."
    file = FOLDER / f"{{name}}-{{gang.rank}}"
    generations = file.read_text().split() if file.exists() else []
    file.write_text(" ".join([*generations, str(gang.generation)]))
    return generations

def test_good(gang):
    assert tries("good", gang) == []

def test_fails_once(gang, process_group):
    before = tries("once", gang)
    assert before or gang.rank != 1, "one is late today"
    assert str(gang.generation) not in before
    dist.all_reduce(torch.ones(1))

def test_fails_twice(gang):
    assert gang.rank != 2, f"two fails at try {{len(tries('twice', gang)) + 1}}"

def test_crashes_once(gang, process_group):
    if not tries("crash", gang) and gang.rank == 3:
        os._exit(4)
    dist.all_reduce(torch.ones(1))

def test_hangs_once(gang, process_group):
    if not tries("hang", gang) and gang.rank == 0:
        time.sleep(1000)
    dist.all_reduce(torch.ones(1))

def test_skipped():
    pytest.skip("not today")
"""

FOREVER = """
import pathlib, time
FILE = pathlib.Path({folder!r}) / "tried"
def test_good(): pass
def test_sleeps_at_its_second_try():
    if FILE.exists():
        print("asleep", flush=True)
        time.sleep(1000)
    FILE.touch()
    assert False, "the first try"
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("flaky")
    suite = suite_of(folder / "suite", SUITE.format(folder=str(folder)))
    return AgentGang(make_plan(suite, flaky_retries=1, case_seconds=4), folder).run()


@pytest.mark.parametrize(
    ("name", "outcome", "earlier", "words", "ranks"),
    [
        ("test_fails_once", Outcome.PASSED, Outcome.FAILED, "one is late today", (1,)),
        ("test_crashes_once", Outcome.PASSED, Outcome.CRASHED, "rank 3 on local-1 exited with code 4", (3,)),
        ("test_hangs_once", Outcome.PASSED, Outcome.HUNG, "rank 0 on local-0 has not joined it", (0,)),
        ("test_fails_twice", Outcome.FAILED, Outcome.FAILED, "two fails at try 1", (2,)),
    ],
)
def test_a_bad_case_is_tried_again_and_its_first_try_is_kept(
    report: Report, name: str, outcome: Outcome, earlier: Outcome, words: str, ranks: tuple[int, ...]
) -> None:
    found = case(report, name)
    (first,) = found.earlier
    assert (found.outcome, first.outcome, first.ranks) == (outcome, earlier, ranks)
    assert words in first.message
    assert found.is_flaky is (outcome is Outcome.PASSED)


def test_the_second_failure_speaks_for_the_case(report: Report) -> None:
    found = case(report, "test_fails_twice")
    assert "two fails at try 2" in found.message
    assert found.ranks == (2,)


def test_good_and_skipped_cases_are_not_tried_again(report: Report) -> None:
    for name in ("test_good", "test_skipped"):
        assert case(report, name).earlier == ()


def test_flaky_cases_are_counted_as_passed(report: Report) -> None:
    counts = only_suite(report).counts
    assert (counts[Outcome.PASSED], counts.flaky, counts[Outcome.FAILED]) == (4, 3, 1)
    assert (report.verdict, report.reason) == (Verdict.TESTS_FAILED, Reason.CASES_FAILED)


@pytest.mark.soak
def test_the_deadline_of_the_run_holds_while_cases_are_tried_again(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite", FOREVER.format(folder=str(tmp_path)))
    # all but the sleep takes a tenth of the run
    plan = make_plan(suite, nodes=1, ranks=1, flaky_retries=1, case_seconds=100, run_seconds=25)
    gang = AgentGang(plan, tmp_path)
    gang.wait_for_line("asleep")
    report = gang.run()
    assert (report.verdict, report.reason) == (Verdict.TIMED_OUT, Reason.RUN_TIMEOUT)
    assert report.joined is not None
    assert report.finished - report.joined < plan.run_seconds + patience.stretched(5)
    assert time.time() - report.finished < patience.stretched(10)
    found = case(report, "test_sleeps_at_its_second_try")
    assert (found.outcome, found.is_flaky) == (Outcome.FAILED, False)
    assert "the first try" in found.message
