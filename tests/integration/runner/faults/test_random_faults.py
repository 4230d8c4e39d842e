"""Random faults in one gang; many of them with --update-faults."""

import random
from pathlib import Path

import pytest

from bench.figure import record
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult
from tests.integration.runner.faults import random_faults
from tests.integration.runner.faults.random_faults import KINDS, Strike

COUNT = 60
SEED = 7
MANY = tuple(kind for kind in KINDS if kind.name not in ("hang", "stop", "zygote", "raise"))  # these take seconds
FEW = tuple(kind for kind in KINDS if kind.name in ("hang", "stop"))


@pytest.mark.soak
def test_no_outcome_and_no_blame_is_wrong_and_nothing_is_left(tmp_path: Path) -> None:
    planned = random_faults.strikes(COUNT - len(FEW) - 1, SEED, MANY) + [Strike(kind, 2) for kind in FEW]
    random.Random(SEED).shuffle(planned)  # noqa: S311 - no secret
    found = random_faults.batch(tmp_path, planned, case_seconds=6, loses_agent=True)
    assert found.wrong == []
    assert found.cases == COUNT
    assert found.faulty > COUNT / 2
    assert len(found.restart_seconds) > COUNT / 3


def test_a_wrong_outcome_and_a_wrong_blame_are_seen() -> None:
    strike = Strike(random_faults.BY_NAME["kill"], 2)
    good = CaseResult(id="x", outcome=Outcome.CRASHED, seconds=0.1, ranks=(2,), message="killed by SIGKILL")
    assert random_faults.wrong(strike, good) == []
    for bad in (
        CaseResult(id="x", outcome=Outcome.PASSED, seconds=0.1),
        CaseResult(id="x", outcome=Outcome.CRASHED, seconds=0.1, ranks=(1, 2), message="killed by SIGKILL"),
        CaseResult(id="x", outcome=Outcome.CRASHED, seconds=0.1, ranks=(2,), message="killed by SIGSEGV"),
    ):
        assert random_faults.wrong(strike, bad)


@pytest.mark.usefixtures("updates_faults")
def test_a_thousand_cases_are_measured() -> None:
    figures = random_faults.measure()
    record(figures)
    assert all(figure.is_met for figure in figures)
