from collections.abc import Sequence
from functools import reduce

import pytest

from disttest_contract.outcomes import Verdict
from disttest_operator.core.series import ledger
from tests.support.builders.runs import a_report
from tests.support.builders.series import Nights

PASSED, FAILED, LOST = Verdict.PASSED, Verdict.TESTS_FAILED, Verdict.INFRA_FAILED


@pytest.mark.parametrize(
    ("verdicts", "streak", "percent"),
    [
        ([], 0, None),
        ([PASSED], 1, 100),
        ([PASSED] * 3, 3, 100),
        ([PASSED, FAILED], -1, 50),
        ([FAILED, FAILED], -2, 0),
        ([FAILED, PASSED], 1, 50),
        ([PASSED, LOST, PASSED], 2, 100),
        ([FAILED, Verdict.CANCELLED, Verdict.HUNG], -2, 0),
        ([PASSED, Verdict.TIMED_OUT, Verdict.ERRORED], -2, 33),
        ([PASSED] * 29 + [FAILED], -1, 96),
        ([LOST, Verdict.CANCELLED], 0, None),
    ],
)
def test_runs_without_a_result_of_the_code_are_not_counted(
    verdicts: Sequence[Verdict], streak: int, percent: int | None
) -> None:
    assert reduce(ledger.streak, verdicts, 0) == streak
    assert ledger.pass_rate_percent(verdicts) == percent


def test_a_ledger_has_the_rate_of_its_last_runs_and_a_streak_as_long_as_it_is() -> None:
    series = Nights()
    series.report(None)
    assert (series.ledger["passRatePercent"], series.ledger["streak"]) == (None, 0)
    for verdict in [FAILED] * 3 + [PASSED] * 28:
        series.report(a_report(), verdict=verdict)
    assert (series.ledger["passRatePercent"], series.ledger["streak"]) == (93, 28)
    for _ in range(4):
        series.report(a_report())
    assert (series.ledger["passRatePercent"], series.ledger["streak"]) == (100, 32)
