"""The table with one line for each series: how it stands."""

from monitoring.dashboards import looks
from monitoring.dashboards.board import Item
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Head
from monitoring.dashboards.promql import MANY, PER_SERIES
from monitoring.dashboards.tables import COUNT, Column, Rows, table_of

KEYS = (("namespace", "Namespace"), ("series", "Series"))
TO_SERIES = (
    "This series in depth",
    "/d/disttest-series?${datasource:queryparam}&var-namespace=${__data.fields.Namespace}"  # noqa: ISC004  # one link
    "&var-series=${__data.fields.Series}&${__url_time_range}",
)
AGO = Look(unit="dateTimeFromNow")
SHARE = Look(unit="percentunit", decimals=0)
PASSED = Look(unit="percentunit", decimals=0, by_steps=True, steps=looks.PASS_RATIO)
BAD = Look(by_steps=True, steps=looks.ANY_IS_BAD)
UNSCHEDULED = "absent where no series has a CronJob"
ODD = Look(by_steps=True, steps=looks.ANY_IS_ODD)
STREAK = Look(by_steps=True, steps=looks.STREAK)


def _of_series(name: str, metric: str, look: Look = COUNT, *, then: str = "", or_empty: str = "") -> Column:
    return Column(name, f"max by ({PER_SERIES}) ({metric}{{{MANY}}}{then})", look=look, or_empty=or_empty)


def _of_suites(name: str, metric: str, look: Look) -> Column:
    return Column(name, f"sum by ({PER_SERIES}) ({metric}{{{MANY}}})", look=look)


def series_now() -> Item:
    seconds = " * 1000"  # Grafana counts in milliseconds
    columns = (
        _of_series("Verdict", "disttest:verdict:code", Look(words=looks.VERDICTS)),
        _of_series("Streak", "disttest_run_streak", STREAK),
        _of_series("Finished", "disttest_last_completion_timestamp_seconds", AGO, then=seconds),
        _of_series(
            "Passed last",
            "disttest_last_success_timestamp_seconds",
            AGO,
            then=seconds,
            or_empty="absent before a success",
        ),
        _of_series("Passed of 30", "disttest_pass_ratio", PASSED),
        _of_series("Changes of 30", "disttest_flip_ratio", SHARE),
        _of_suites("Failing", "disttest_failing_cases", BAD),
        _of_suites("Newly", "disttest_newly_failing_cases", BAD),
        _of_suites("Flaky", "disttest_flaky_cases", ODD),
        _of_series("Next", "disttest_schedule_next_timestamp_seconds", AGO, then=seconds, or_empty=UNSCHEDULED),
        _of_series(
            "Missing", "disttest:schedule:missed", Look(words=looks.YES_IS_BAD), then=" > bool 0", or_empty=UNSCHEDULED
        ),
        _of_series("Suspended", "disttest_schedule_suspended", Look(words=looks.YES_IS_KNOWN), or_empty=UNSCHEDULED),
        _of_series("Schedule read", "disttest_schedule_readable", Look(words=looks.YES_IS_GOOD), or_empty=UNSCHEDULED),
    )
    head = Head(
        "Series now",
        "One line for each series. Streak: so many runs in a row passed; negative: so many did not. "
        "The last four columns are of the CronJob with the label of the series; without one they are empty.",
        width=24,
        link=TO_SERIES,
    )
    return table_of(head, Rows(keys=KEYS, sort="Streak", descending=False), columns)
