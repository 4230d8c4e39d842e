"""The dashboard of all series: failures, their start, and durations."""

from tools.dashboards.boards import panels, promql, series_table, styles
from tools.dashboards.boards.board import Board, DashboardSection
from tools.dashboards.boards.panels import Ask, Head, bars, cells, lines, ranking, summary, words
from tools.dashboards.boards.promql import MANY, PER_SERIES, in_night, of_night
from tools.dashboards.boards.styles import FieldStyle

TO_SERIES = (
    "Details of this series",
    "/d/disttest-series?${datasource:queryparam}&var-namespace=${__field.labels.namespace}"  # noqa: ISC004  # one link
    "&var-series=${__field.labels.series}&${__url_time_range}",
)
NAME = "{{namespace}}/{{series}}"
CODE = f"disttest:verdict:code{{{MANY}}}"
# `|` at the end also matches alerts without a series.
FIRING = 'ALERTS{alertname=~"DistTest.*", alertstate="firing", namespace=~"$namespace|", series=~"$series|"}'
COMMANDS = """
List the runs of a series: `kubectl get disttests -A --field-selector status.series=SERIES`

Show the report of a run, with all cases, ranks and stacks: `kubectl disttest report NAME -n NAMESPACE`
(`-o html` for an HTML page)

Show verdict, reason and next step: `kubectl disttest describe NAME -n NAMESPACE`
"""


def _now() -> DashboardSection:
    failed = "Series whose last run neither passed nor was cancelled."
    overdue = f"count(disttest:schedule:missed{{{MANY}}} > 0)"
    newly = "Cases that failed in their last run, but not the time before."
    flaky = "Cases that passed only when rerun, or started to fail more than once, in the last 30 runs."
    bad, odd = styles.ANY_IS_BAD, styles.ANY_IS_ODD
    rows = (
        ("Series", "Number of DistTestSeries.", f"count(disttest_run_streak{{{MANY}}})", styles.NEUTRAL),
        ("Failed series", failed, f"count({CODE} >= 2 and {CODE} < 5)", bad),
        ("Scheduled runs missing", "Series with an overdue scheduled run.", overdue, bad),
        ("Newly failing", newly, f"sum(disttest_newly_failing_cases{{{MANY}}})", bad),
        ("Failing", "Cases that failed in their last run.", f"sum(disttest_failing_cases{{{MANY}}})", bad),
        ("Flaky", flaky, f"sum(disttest_flaky_cases{{{MANY}}})", odd),
        ("Active runs", "Runs without a verdict.", f"sum(disttest_active_runs{{{MANY}}})", styles.NEUTRAL),
        ("Alerts firing", "Alerts of DistTest that are firing.", f"count({FIRING})", bad),
    )
    return summary(rows, width=3)


def _verdicts() -> DashboardSection:
    head = Head(
        "Verdict by day",
        "One cell for each series and day (UTC): the verdict of the last run that finished on that day, no run, or a "
        "missing scheduled run. An empty cell means that no metrics were scraped.",
        width=24,
        height=10,
        link=TO_SERIES,
    )
    grid = cells(head, Ask(promql.verdict_of_night(MANY), NAME), FieldStyle(words=styles.VERDICTS))
    commands = words(Head("Report of a run", "Commands that show a run.", width=24, height=5), COMMANDS)
    return DashboardSection(title="Verdicts", items=(grid, series_table.series_now(), commands))


def _cases() -> DashboardSection:
    about = "Alerts of DistTest that are firing. For their fixes, see docs/operating/runbook.md."
    firing = series_table.alerts_firing(FIRING, about, width=10)
    named = series_table.cases_by_name(MANY, series_table.KEYS, series_table.TO_SERIES)
    return DashboardSection(title="Cases", items=(named, firing, series_table.cases_by_night(MANY, ("series", "case"))))


def _nightly(title: str, about: str, *, width: int = 8) -> Head:
    return Head(title, about, width=width, step=promql.NIGHT)


def _trends() -> DashboardSection:
    def total(metric: str) -> str:
        return f"sum({of_night(f'{metric}{{{MANY}}}')})"

    ratio = lines(
        _nightly("Pass rate, 7 days", "Passed runs of the last 7 days. InfraFailed and Cancelled runs do not count."),
        (Ask(f"max by ({PER_SERIES}) ({of_night(f'disttest:pass_ratio:7d{{{MANY}}}')})", NAME),),
        FieldStyle(
            unit="percentunit", lowest=0, highest=1, steps=((None, "transparent"), (0.8, styles.RED)), dashed=True
        ),
    )
    counts = lines(
        _nightly("Failing, newly failing and flaky cases", "Total of the selected series at the end of each day."),
        (
            Ask(total("disttest_failing_cases"), "failing"),
            Ask(total("disttest_newly_failing_cases"), "newly failing"),
            Ask(total("disttest_last_run_flaky_cases"), "flaky"),
        ),
        FieldStyle(
            lowest=0, colours=(("failing", styles.RED), ("newly failing", styles.PURPLE), ("flaky", styles.YELLOW))
        ),
    )
    bad_cases = f'disttest_cases_total{{{MANY}, outcome!~"passed|skipped|xfailed"}}'
    outcomes = bars(
        _nightly("Cases that did not pass", "Cases of each day by outcome, except passed, skipped and xfailed."),
        Ask(f"sum by (outcome) ({in_night(bad_cases)})", "{{outcome}}"),
        FieldStyle(decimals=0, colours=styles.OUTCOMES),
    )
    return DashboardSection(title="Trends", items=(ratio, counts, outcomes))


def _time() -> DashboardSection:
    steps = bars(
        _nightly("Time by step", "Seconds that the runs of each day spent in each step.", width=12),
        Ask(f"sum by (step) ({in_night(f'disttest_step_duration_seconds_sum{{{MANY}}}')})", "{{step}}", at_least=6),
        FieldStyle(unit="s"),
    )
    longest = f"topk(15, max by (series, suite) (disttest_suite_last_duration_seconds{{{MANY}}}))"
    suites = ranking(
        Head("Longest suites", "The 15 suites with the longest duration in the last run of each series."),
        Ask(longest, "{{series}} {{suite}}"),
        FieldStyle(unit="s", lowest=0),
    )
    return DashboardSection(title="Time", items=(steps, suites))


BOARD = Board(
    uid="disttest-nights",
    title="DistTest / Nights",
    description="All series over months: verdicts, streaks, failing and flaky cases, schedules and durations.",
    since="now-60d",
    refresh="5m",
    variables=(panels.DATASOURCE, panels.NAMESPACES, panels.SERIES),
    sections=(_now(), _verdicts(), _cases(), _trends(), _time()),
)
