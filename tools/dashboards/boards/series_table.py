"""Tables that two dashboards share: the state of each series, failing cases, firing alerts."""

from tools.dashboards.boards import styles
from tools.dashboards.boards.board import Item
from tools.dashboards.boards.panels import Ask, Head, timeline
from tools.dashboards.boards.promql import MANY, PER_SERIES
from tools.dashboards.boards.styles import FieldStyle
from tools.dashboards.boards.tables import COUNT, Rows, TableColumn, table_of

KEYS = (("namespace", "Namespace"), ("series", "Series"))
TO_SERIES = (
    "This series in depth",
    "/d/disttest-series?${datasource:queryparam}&var-namespace=${__data.fields.Namespace}"  # noqa: ISC004  # one link
    "&var-series=${__data.fields.Series}&${__url_time_range}",
)
AGO = FieldStyle(unit="dateTimeFromNow")
SHARE = FieldStyle(unit="percentunit", decimals=0)
PASSED = FieldStyle(unit="percentunit", decimals=0, by_steps=True, steps=styles.PASS_RATIO)
BAD = FieldStyle(by_steps=True, steps=styles.ANY_IS_BAD)
UNSCHEDULED = "absent where no series has a CronJob"
ODD = FieldStyle(by_steps=True, steps=styles.ANY_IS_ODD)
STREAK = FieldStyle(by_steps=True, steps=styles.STREAK)


def _of_series(name: str, metric: str, style: FieldStyle = COUNT, *, then: str = "", or_empty: str = "") -> TableColumn:
    return TableColumn(name, f"max by ({PER_SERIES}) ({metric}{{{MANY}}}{then})", style=style, or_empty=or_empty)


def _of_suites(name: str, metric: str, style: FieldStyle) -> TableColumn:
    return TableColumn(name, f"sum by ({PER_SERIES}) ({metric}{{{MANY}}})", style=style)


def series_now() -> Item:
    seconds = " * 1000"  # Grafana counts in milliseconds
    columns = (
        _of_series("Verdict", "disttest:verdict:code", FieldStyle(words=styles.VERDICTS)),
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
            "Missing",
            "disttest:schedule:missed",
            FieldStyle(words=styles.YES_IS_BAD),
            then=" > bool 0",
            or_empty=UNSCHEDULED,
        ),
        _of_series(
            "Suspended", "disttest_schedule_suspended", FieldStyle(words=styles.YES_IS_KNOWN), or_empty=UNSCHEDULED
        ),
        _of_series(
            "Schedule read", "disttest_schedule_readable", FieldStyle(words=styles.YES_IS_GOOD), or_empty=UNSCHEDULED
        ),
    )
    head = Head(
        "Series now",
        "One line for each series. Streak: so many runs in a row passed; negative: so many did not. "
        "The last four columns are of the CronJob with the label of the series; without one they are empty.",
        width=24,
        link=TO_SERIES,
    )
    return table_of(head, Rows(keys=KEYS, sort="Streak", descending=False), columns)


STEP = "6h"  # fine enough to see in which night a case came and went
STREAK_STYLE = FieldStyle(steps=styles.FAILING, by_steps=True)
NONE = "absent while no case fails"


def cases_by_name(scope: str, keys: tuple[tuple[str, str], ...], link: tuple[str, str] | None = None) -> Item:
    keys = (*keys, ("suite", "Suite"), ("case", "Case"))
    head = Head(
        "Failing cases by name",
        "Cases that were bad when they last ran, at most 50 a series, and for how many runs in a row.",
        width=14,
        link=link,
    )
    column = TableColumn(
        "Runs in a row", _streak(scope, [label for label, _ in keys]), style=STREAK_STYLE, width=120, or_empty=NONE
    )
    return table_of(head, Rows(keys=keys, sort=column.name), (column,))


def cases_by_night(scope: str, labels: tuple[str, ...]) -> Item:
    head = Head(
        "Failing cases by night",
        "A bar from the night in which a case broke to the one in which it was good again, with the streak.",
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
