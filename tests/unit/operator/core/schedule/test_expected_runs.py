"""What is expected of a series at which moment. Nights begin at one; their verdict is due six hours later."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from disttest_operator.core.schedule import cron, expected_runs
from disttest_operator.core.schedule.expected_runs import CronJobView, Expectation, Timetable

DAY = timedelta(days=1)


def moment(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


NOON = moment(20, 12)


def a_cron_job(name: str = "nightly", **changes: Any) -> CronJobView:
    usual: dict[str, Any] = {
        "namespace": "gpu-ci",
        "name": name,
        "series": "nightly",
        "schedule": "0 1 * * *",
        "time_zone": "",
        "is_suspended": False,
        "allowance_seconds": 6 * 3600,
        "expects_since": moment(1),
    }
    return CronJobView(**usual | changes)


def expected(*cron_jobs: CronJobView, now: datetime = NOON) -> Expectation:
    [one] = Timetable().outlook(cron_jobs, now).expected
    return one


def test_without_cronjobs_nothing_is_expected() -> None:
    assert Timetable().outlook([], NOON) == expected_runs.Outlook()


def test_a_series_exposes_its_schedule() -> None:
    assert expected(a_cron_job()) == Expectation(
        namespace="gpu-ci",
        series="nightly",
        due=moment(20, 1),
        next=moment(21, 1),
        interval_seconds=86400,
        is_suspended=False,
        is_readable=True,
    )


@pytest.mark.parametrize(
    ("now", "due"),
    [
        (moment(20, 0, 59), moment(19, 1)),
        (moment(20, 1), moment(19, 1)),
        (moment(20, 6, 59), moment(19, 1)),
        (moment(20, 7), moment(20, 1)),
        (moment(21, 6, 59), moment(20, 1)),
    ],
    ids=["before", "at its time", "while it may run", "when it must be finished", "until the next must be"],
)
def test_a_nightly_run_is_due_when_its_time_and_the_allowance_have_passed(now: datetime, due: datetime) -> None:
    assert expected(a_cron_job(), now=now).due == due


@pytest.mark.parametrize(
    ("since", "due"),
    [(moment(20, 1), moment(20, 1)), (moment(20, 1, 1), None), (moment(20, 11), None)],
    ids=["just in time", "a second late", "today"],
)
def test_times_before_the_cronjob_was_created_or_resumed_are_not_expected(
    since: datetime, due: datetime | None
) -> None:
    seen = expected(a_cron_job(expects_since=since))
    assert (seen.due, seen.next) == (due, moment(21, 1))


def test_a_suspended_cronjob_expects_nothing_and_keeps_its_interval() -> None:
    seen = expected(a_cron_job(is_suspended=True))
    assert (seen.due, seen.next, seen.interval_seconds) == (None, None, 86400)
    assert seen.is_suspended
    assert seen.is_readable


@pytest.mark.parametrize("changes", [{"schedule": "@every 24h"}, {"time_zone": "Mars/Olympus"}], ids=["when", "where"])
def test_what_is_not_understood_expects_nothing_and_says_so(changes: dict[str, str]) -> None:
    seen = expected(a_cron_job(**changes))
    assert (seen.due, seen.next, seen.interval_seconds, seen.is_readable) == (None, None, None, False)


def test_the_interval_over_a_weekend_is_three_days() -> None:
    """20 November 2026 is a Friday."""
    seen = expected(a_cron_job(schedule="0 1 * * 1-5"))
    assert (seen.next, seen.interval_seconds) == (moment(23, 1), 3 * 86400)


def test_a_schedule_in_a_zone_follows_its_clocks() -> None:
    berlin = a_cron_job(
        schedule="30 2 * * *", time_zone="Europe/Berlin", expects_since=datetime(2026, 1, 1, tzinfo=UTC)
    )
    skipped = datetime(2026, 3, 29, 12, tzinfo=UTC)  # no clock showed half past two that night
    seen = expected(berlin, now=skipped)
    assert (seen.due, seen.next) == (
        datetime(2026, 3, 28, 1, 30, tzinfo=UTC),
        datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
    )


def test_two_cronjobs_of_a_series_are_expected_together() -> None:
    early, late = a_cron_job(), a_cron_job("noon", schedule="0 13 * * *")
    for cron_jobs in ((early, late), (late, early)):
        assert expected(*cron_jobs, now=moment(20, 12)).due == moment(20, 1)
        assert expected(*cron_jobs, now=moment(20, 12)).next == moment(20, 13)
        assert expected(*cron_jobs, now=moment(20, 20)).due == moment(20, 13)
        assert expected(*cron_jobs, now=moment(20, 20)).interval_seconds == 12 * 3600


def test_of_two_cronjobs_the_one_that_is_not_suspended_counts() -> None:
    seen = expected(a_cron_job(), a_cron_job("noon", schedule="0 13 * * *", is_suspended=True))
    assert (seen.next, seen.interval_seconds, seen.is_suspended) == (moment(21, 1), 86400, False)


def test_of_two_cronjobs_an_invalid_one_is_reported_and_the_other_is_expected() -> None:
    seen = expected(a_cron_job(), a_cron_job("noon", schedule="@every 1h"))
    assert (seen.due, seen.is_readable) == (moment(20, 1), False)


def test_more_series_than_the_bound_are_cut_in_the_order_of_their_names() -> None:
    cron_jobs = [a_cron_job(series=f"s{number:03}") for number in range(expected_runs.MAX_SERIES + 7)]
    outlook = Timetable().outlook([*reversed(cron_jobs), a_cron_job("twin", series="s000")], NOON)
    assert outlook.cut == 7
    assert [one.series for one in outlook.expected] == [f"s{number:03}" for number in range(expected_runs.MAX_SERIES)]


def test_series_of_the_same_name_in_two_namespaces_are_two() -> None:
    outlook = Timetable().outlook([a_cron_job(), a_cron_job(namespace="other")], NOON)
    assert [one.namespace for one in outlook.expected] == ["gpu-ci", "other"]


class Reckonings:
    """Counts how often a schedule is evaluated."""

    count = 0

    def around(self, *asked: Any) -> Any:
        self.count += 1
        return cron.around(*asked)


def test_between_two_scheduled_times_nothing_is_computed_again() -> None:
    reckonings = Reckonings()
    timetable = Timetable(reckonings.around)
    cron_jobs = [a_cron_job(), a_cron_job("twin", series="twin")]
    for minutes in range(10 * 1440):
        now = moment(10) + timedelta(minutes=minutes)
        outlook = timetable.outlook(cron_jobs, now)
        if not minutes % 97:
            assert outlook == Timetable().outlook(cron_jobs, now), "as one without a memory says"
    assert reckonings.count == 2 * (1 + 10), "at first, and when its time comes: now, and an allowance ago"


def test_a_clock_that_jumps_back_gets_the_schedule_of_its_time() -> None:
    timetable = Timetable()
    for now in (NOON, NOON + 400 * DAY, NOON, NOON - 3 * DAY):
        assert timetable.outlook([a_cron_job()], now) == Timetable().outlook([a_cron_job()], now)


def test_a_schedule_without_any_time_is_computed_once_a_day() -> None:
    reckonings = Reckonings()
    timetable = Timetable(reckonings.around)
    for minute in range(1440):
        [one] = timetable.outlook([a_cron_job(schedule="0 0 31 2 *")], moment(20) + timedelta(minutes=minute)).expected
        assert (one.due, one.next, one.interval_seconds, one.is_readable) == (None, None, None, True)
    assert reckonings.count == 2
