"""Which cases are reported as slower: tables, and the error rate of the rule for known changes."""

import math
import random
from collections.abc import Sequence

import pytest

from disttest_cli.compare import speed
from disttest_cli.compare.model import Trend
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from tests.support.builders.compared import a_case, a_night, timed
from tests.support.builders.runs import a_flaky_case

STEADY = [2.0] * 30  # seconds of other cases of the suite


def slower(before: float, after: float, *, others: Sequence[float] = STEADY, drift: float = 1.0) -> list[str]:
    a = a_night(0, timed([before, *others]))
    b = a_night(1, timed([after, *(drift * other for other in others)]))
    return [one.case for one in speed.compare(a, b).slower]


@pytest.mark.parametrize(
    ("before", "after", "is_slower"),
    [
        (10.0, 14.9, False),
        (10.0, 15.1, True),
        (0.9, 1.35, False),  # not half a second longer
        (0.2, 0.69, False),
        (0.2, 0.75, True),
        (0.0, 0.6, True),  # too short to be timed, and now it is not
        (10.0, 2.0, False),
        (1e9, 1e12, False),  # no duration
        (1.0, math.inf, False),
        (1.0, math.nan, False),
        (-1.0, 5.0, False),
    ],
)
def test_a_case_is_slower_when_it_took_half_as_long_again_and_half_a_second_more(
    before: float, after: float, *, is_slower: bool
) -> None:
    assert slower(before, after) == (["t.py::test_0"] if is_slower else [])


def test_a_change_of_a_whole_suite_is_reported_once_and_subtracted_from_each_case() -> None:
    a, b = a_night(0, timed([10.0, *STEADY])), a_night(1, timed([16.0, *(1.4 * other for other in STEADY)]))
    found = speed.compare(a, b)
    assert found.slower == ()
    [drift] = found.drifts
    assert (round(drift.ratio, 3), drift.cases, drift.trend) == (1.4, 31, Trend.WORSE)
    assert slower(10.0, 22.0, drift=1.4) == ["t.py::test_0"]
    [one] = speed.compare(a, a_night(1, timed([22.0, *(1.4 * other for other in STEADY)]))).slower
    assert (round(one.expected_seconds, 3), round(one.ratio, 3)) == (14.0, 1.571)


@pytest.mark.parametrize(
    ("ratio", "trend"), [(1.2, Trend.SAME), (1.3, Trend.WORSE), (0.9, Trend.SAME), (0.7, Trend.BETTER)]
)
def test_a_suite_as_a_whole_may_differ_by_a_quarter(ratio: float, trend: Trend) -> None:
    found = speed.compare(a_night(0, timed(STEADY)), a_night(1, timed([ratio * one for one in STEADY])))
    assert [one.trend for one in found.drifts] == [trend]


def test_of_few_cases_nothing_is_known_of_drift_and_little_of_noise() -> None:
    a = a_night(0, timed([2.0, 2.0, 2.0]))
    assert speed.compare(a, a_night(1, timed([3.4, 3.4, 3.4]))).slower == ()
    assert len(speed.compare(a, a_night(1, timed([5.0, 5.0, 5.0]))).slower) == 3


def test_only_cases_that_were_good_at_the_first_try_and_began_with_warm_ranks_are_compared() -> None:
    def night(number: int, seconds: float, *, is_cold: bool) -> Report:
        flaky = a_flaky_case("test_flaky")
        cases = [a_case("crash", Outcome.CRASHED if is_cold else Outcome.PASSED), a_case("next", seconds=seconds)]
        failed = a_case("failed", Outcome.FAILED, seconds=seconds)
        return a_night(number, {"mine": [*cases, flaky, failed, *(a_case(f"{one}") for one in range(30))]})

    found = speed.compare(night(0, 1.0, is_cold=False), night(1, 60.0, is_cold=True))
    assert (found.compared, found.slower) == (30, ())
    found = speed.compare(night(0, 1.0, is_cold=False), night(1, 60.0, is_cold=False))
    assert (found.compared, [one.case for one in found.slower]) == (32, ["next"])


class TestEarlierReports:
    """Six nights; the case takes the given seconds, all others two."""

    def changed(self, *nights: float) -> tuple[list[str], list[str]]:
        *earlier, a, b = [a_night(number, timed([one, *STEADY])) for number, one in enumerate(nights)]
        found = speed.compare(a, b, earlier)
        return [one.case for one in found.slower], [one.case for one in found.faster]

    def test_a_lucky_night_makes_the_next_one_no_news(self) -> None:
        assert self.changed(10, 10, 10, 10, 10, 4, 10) == ([], [])
        assert self.changed(4, 10) == (["t.py::test_0"], [])

    def test_what_was_slow_in_a_already_is_no_news(self) -> None:
        assert self.changed(4, 4, 4, 4, 4, 8, 10) == ([], [])

    def test_a_case_that_always_varies_is_given_more_room(self) -> None:
        assert self.changed(5, 14, 6, 12, 5, 8, 17) == ([], [])
        assert self.changed(8, 9, 8, 8, 9, 8, 17) == (["t.py::test_0"], [])

    def test_nights_on_a_slower_machine_are_scaled(self) -> None:
        slow = [a_night(number, timed([3 * one for one in (10, *STEADY)])) for number in range(5)]
        a, b = a_night(5, timed([10, *STEADY])), a_night(6, timed([16, *STEADY]))
        assert [one.case for one in speed.compare(a, b, slow).slower] == ["t.py::test_0"]

    def test_too_few_are_not_heard(self) -> None:
        assert self.changed(10, 10, 4, 10) == (["t.py::test_0"], [])


def simulate(
    spread: float, *, cases: int, trials: int, earlier: int = 0, heavy: bool = False
) -> tuple[float, float, float]:
    """False alarms of cases and of suites for each comparison, and the part of true slowdowns by two that is found.

    Durations are log-normal around one second. In each run noise of this spread comes on top, and the machine of each
    is up to a tenth faster or slower. Of the cases that take a second or more so many are slowed down as are a
    hundredth of all.
    """
    dice = random.Random(cases)  # noqa: S311  # a simulation
    false, drifted, hit, slowed = 0, 0, 0, 0
    for _ in range(trials):
        true = [math.exp(dice.gauss(0, 1.2)) for _ in range(cases)]

        def run(number: int, drift: float, slow: frozenset[int] = frozenset(), true: Sequence[float] = true) -> Report:
            noisy = [
                one * drift * (2 if place in slow else 1) * math.exp(_noise(dice, spread, heavy=heavy))
                for place, one in enumerate(true)
            ]
            return a_night(number, timed(noisy, suites=4))

        before = [run(number, dice.uniform(0.9, 1.1)) for number in range(earlier)]
        chosen = frozenset(dice.sample([place for place, one in enumerate(true) if one >= 1], max(1, cases // 100)))
        drift = dice.uniform(0.9, 1.1)
        a, b, worse = run(98, 1.0), run(99, drift), run(99, drift, chosen)
        same = speed.compare(a, b, before)
        false += len(same.slower) + len(same.faster)
        drifted += sum(one.trend is not Trend.SAME for one in same.drifts)
        found = {one.case for one in speed.compare(a, worse, before).slower}
        hit += len(found & {f"t.py::test_{place}" for place in chosen})
        slowed += len(chosen)
    return false / trials, drifted / trials, hit / slowed


def _noise(dice: random.Random, spread: float, *, heavy: bool) -> float:
    """Of one run. Heavy: with the tails of a Laplace distribution of this standard deviation."""
    return dice.expovariate(math.sqrt(2) / spread) * dice.choice((-1, 1)) if heavy else dice.gauss(0, spread)


class TestOfTwoThousandCases:
    """The seeds are fixed: what is asserted was seen so, with more trials too (docs/development/measurements.md)."""

    def test_noise_of_five_percent_gives_no_false_alarm_and_hides_no_slowdown_by_two(self) -> None:
        false, drifted, power = simulate(0.05, cases=2000, trials=2)
        assert (false, drifted) == (0, 0)
        assert power >= 0.99

    def test_noise_of_ten_percent_gives_hardly_a_false_alarm_and_hides_every_third(self) -> None:
        false, drifted, power = simulate(0.1, cases=2000, trials=2)
        assert false == 0
        assert drifted == 0
        assert power > 0.5

    def test_with_eight_more_reports_it_hides_few(self) -> None:
        false, _, power = simulate(0.1, cases=400, trials=2, earlier=8)
        assert false <= 1 / 2
        assert power > 0.7

    def test_noise_of_twenty_percent_is_not_taken_for_slowdowns(self) -> None:
        assert simulate(0.2, cases=2000, trials=1)[:2] == (0, 0)

    def test_long_tails_give_one_false_alarm_in_a_comparison_at_most(self) -> None:
        assert simulate(0.1, cases=2000, trials=2, heavy=True)[0] <= 1
