"""Tables that two dashboards share: the state of each series, failing cases, firing alerts."""

from tools.dashboards.boards import styles
from tools.dashboards.boards.board import Item
from tools.dashboards.boards.panels import COUNT, Ask, Head, Rows, TableColumn, table_of, timeline
from tools.dashboards.boards.promql import MANY, PER_SERIES
from tools.dashboards.boards.styles import FieldStyle

KEYS = (("namespace", "Namespace"), ("series", "Series"))
TO_SERIES = (
    "Details of this series",
    "/d/disttest-series?${datasource:queryparam}&var-namespace=${__data.fields.Namespace}"  # noqa: ISC004  # one link
    "&var-series=${__data.fields.Series}&${__url_time_range}",
)
AGO = FieldStyle(unit="dateTimeFromNow")
SHARE = FieldStyle(unit="percentunit", decimals=0)
PASSED = FieldStyle(unit="percentunit", decimals=0, by_steps=True, steps=styles.PASS_RATIO)
BAD = FieldStyle(by_steps=True, steps=styles.ANY_IS_BAD)
UNPASSED = "absent before the first pass"
UNSCHEDULED = "absent where no series has a CronJob"
ODD = FieldStyle(by_steps=True, steps=styles.ANY_IS_ODD)
STREAK = FieldStyle(by_steps=True, steps=styles.STREAK)


def _of_series(name: str, metric: str, style: FieldStyle = COUNT, or_empty: str = "", *, then: str = "") -> TableColumn:
    factor = " * 1000" if style is AGO else ""  # Grafana counts in milliseconds
    expr = f"max by ({PER_SERIES}) ({metric}{{{MANY}}}{factor}{then})"
    return TableColumn(name, expr, style=style, or_empty=or_empty)


def _of_suites(name: str, metric: str, style: FieldStyle) -> TableColumn:
    return TableColumn(name, f"sum by ({PER_SERIES}) ({metric}{{{MANY}}})", style=style)


def series_now() -> Item:
    verdict, missing = FieldStyle(words=styles.VERDICTS), FieldStyle(words=styles.YES_IS_BAD)
    suspended, valid = FieldStyle(words=styles.YES_IS_KNOWN), FieldStyle(words=styles.YES_IS_GOOD)
    columns = (
        _of_series("Verdict", "disttest:verdict:code", verdict),
        _of_series("Streak", "disttest_run_streak", STREAK),
        _of_series("Finished", "disttest_last_completion_timestamp_seconds", AGO),
        _of_series("Last pass", "disttest_last_success_timestamp_seconds", AGO, UNPASSED),
        _of_series("Pass rate", "disttest_pass_ratio", PASSED),
        _of_series("Flip rate", "disttest_flip_ratio", SHARE),
        _of_suites("Failing", "disttest_failing_cases", BAD),
        _of_suites("Newly failing", "disttest_newly_failing_cases", BAD),
        _of_suites("Flaky", "disttest_flaky_cases", ODD),
        _of_series("Next", "disttest_schedule_next_timestamp_seconds", AGO, UNSCHEDULED),
        _of_series("Missing", "disttest:schedule:missed", missing, UNSCHEDULED, then=" > bool 0"),
        _of_series("Suspended", "disttest_schedule_suspended", suspended, UNSCHEDULED),
        _of_series("Schedule valid", "disttest_schedule_readable", valid, UNSCHEDULED),
    )
    head = Head(
        "Series now",
        "One row for each series. Streak: number of runs in a row that passed; negative: that did not pass. Pass rate "
        "and flip rate: of the last 30 runs. The last four columns are empty without a CronJob of the series.",
        width=24,
        link=TO_SERIES,
    )
    return table_of(head, Rows(keys=KEYS, sort="Streak", descending=False), columns)


STEP = "6h"  # less than a day, to show in which night a case started and stopped failing
STREAK_STYLE = FieldStyle(steps=styles.FAILING, by_steps=True)
NONE = "absent while no case fails"


def cases_by_name(scope: str, keys: tuple[tuple[str, str], ...], link: tuple[str, str] | None = None) -> Item:
    keys = (*keys, ("suite", "Suite"), ("case", "Case"))
    head = Head(
        "Failing cases by name",
        "Cases that failed in their last run (at most 50 per series), and in how many runs in a row.",
        width=14,
        link=link,
    )
    column = TableColumn(
        "Runs in a row", _streak(scope, [label for label, _ in keys]), style=STREAK_STYLE, width=120, or_empty=NONE
    )
    return table_of(head, Rows(keys=keys, sort=column.name), (column,))


def cases_by_night(scope: str, labels: tuple[str, ...]) -> Item:
    head = Head(
        "Failing cases by day",
        "A bar from the day on which a case started to fail to the day on which it passed, with the streak.",
        width=24,
        height=9,
        step=STEP,
    )
    name = " ".join(f"{{{{{label}}}}}" for label in labels)
    return timeline(
        head, Ask(_streak(scope, ["namespace", "series", "suite", "case"]), name, or_empty=NONE), STREAK_STYLE
    )


def _streak(scope: str, labels: list[str]) -> str:
    return f"max by ({', '.join(labels)}) (disttest_failing_case_streak{{{scope}}})"


def alerts_firing(firing: str, about: str, *, width: int = 12) -> Item:
    keys = (("alertname", "Alert"), ("severity", "Severity"), *KEYS)
    expr, style = f"max by ({', '.join(label for label, _ in keys)}) ({firing})", FieldStyle(words=styles.YES_IS_BAD)
    column = TableColumn("Firing", expr, style=style, width=70, or_empty="absent while no alert fires")
    return table_of(
        Head("Alerts firing by name", about, width=width), Rows(keys=keys, sort="Alert", descending=False), (column,)
    )
