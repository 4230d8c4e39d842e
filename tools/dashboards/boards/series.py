"""The dashboard of one series."""

from tools.dashboards.boards import panels, promql, series_table, styles
from tools.dashboards.boards.board import Board, DashboardSection, Item
from tools.dashboards.boards.panels import Ask, Head, Rows, TableColumn, bars, cells, lines, stat_of, table_of, words
from tools.dashboards.boards.promql import SINGLE, if_ran, in_night, quantile
from tools.dashboards.boards.series_table import AGO, BAD, ODD, PASSED, SHARE, STREAK, UNPASSED
from tools.dashboards.boards.styles import FieldStyle

SECONDS, WHOLE, SPAN = FieldStyle(unit="s", lowest=0), FieldStyle(decimals=0), FieldStyle(unit="s")
VERDICT, KNOWN = FieldStyle(words=styles.VERDICTS), FieldStyle(words=styles.YES_IS_KNOWN)


def _nightly(title: str, about: str) -> Head:
    return Head(title, about, step=promql.NIGHT)


def durations() -> DashboardSection:
    steps = if_ran(f"disttest_last_run_step_seconds{{{SINGLE}}}", SINGLE)
    suites = if_ran(f"disttest_suite_last_duration_seconds{{{SINGLE}}}", SINGLE)
    took = f"disttest_run_duration_seconds_bucket{{{SINGLE}}}"
    waited = f"disttest_gang_wait_seconds_bucket{{{SINGLE}}}"
    return DashboardSection(
        title="Time",
        items=(
            bars(
                _nightly("Duration of steps", "Duration of each step of the last run of the day."),
                Ask(f"max by (step) ({steps})", "{{step}}", at_least=6),
                SECONDS,
            ),
            bars(
                _nightly("Duration of suites", "Duration of each suite of the last run of the day."),
                Ask(f"max by (suite) ({suites})", "{{suite}}"),
                SECONDS,
            ),
            lines(
                _nightly(
                    "Duration of runs, 7 days",
                    "Time from the start of the gang to the verdict: median and 95th percentile of the runs of 7 days, "
                    "estimated from histogram buckets.",
                ),
                (Ask(quantile(0.5, took, "", "7d"), "median"), Ask(quantile(0.95, took, "", "7d"), "95th percentile")),
                SECONDS,
            ),
            lines(
                _nightly(
                    "Wait for nodes, 7 days",
                    "Time from the creation of a run until its last pod had a node: 90th percentile by queue.",
                ),
                (Ask(quantile(0.9, waited, "queue", "7d"), "queue {{queue}}"),),
                SECONDS,
            ),
        ),
    )


def runs() -> DashboardSection:
    verdicts = bars(
        _nightly("Runs by verdict", "Runs that finished on each day."),
        Ask(f"sum by (verdict) ({in_night(f'disttest_runs_total{{{SINGLE}}}')})", "{{verdict}}"),
        FieldStyle(decimals=0, colours=styles.RUN_VERDICTS),
    )
    retries = f"sum by (reason) ({in_night(f'disttest_retries_total{{{SINGLE}}}')}) > 0.5"
    hung = f"sum by (suite) ({in_night(f'disttest_hangs_total{{{SINGLE}}}')}) > 0.5"
    # Increases are extrapolated between samples: 0.5 separates none from one.
    counted = f"sum by (verdict, reason) (increase(disttest_runs_total{{{SINGLE}}}[$__range])) > 0.5"
    reasons = table_of(
        Head("Reasons", "Runs in the time range by verdict and reason."),
        Rows(keys=(("verdict", "Verdict"), ("reason", "Reason")), sort="Runs"),
        (TableColumn("Runs", counted, style=WHOLE),),
    )
    again = bars(
        _nightly("Retries", "Attempts that were retried, by reason."),
        Ask(retries, "{{reason}}", or_empty="no attempt was retried"),
        WHOLE,
    )
    hangs = bars(
        _nightly("Hangs", "Cases that hung, by suite, including those that passed when rerun."),
        Ask(hung, "{{suite}}", or_empty="no case hung"),
        WHOLE,
    )
    return DashboardSection(title="Runs", items=(verdicts, reasons, again, hangs))


def active() -> DashboardSection:
    phases = lines(
        Head("Active runs", "Runs without a verdict, by phase.", width=8),
        (Ask(f"sum by (phase) (disttest_active_runs{{{SINGLE}}})", "{{phase}}"),),
        FieldStyle(lowest=0, decimals=0),
    )
    labels = "torch_version, nccl_version, gpu_product, backend"
    keys = (("torch_version", "torch"), ("nccl_version", "NCCL"), ("gpu_product", "GPU"), ("backend", "Backend"))
    expr = f"max by ({labels}) (disttest_info{{{SINGLE}}})"
    environment = table_of(
        Head("Environment", "Software and GPU of the last run with results.", width=16),
        Rows(keys=keys, sort="torch"),
        (TableColumn("In use", expr, style=KNOWN, or_empty="absent before the first run with results"),),
    )
    return DashboardSection(title="Active runs and environment", items=(phases, environment))


# Encoded, because the sender of a link chooses these values; names in Kubernetes stay the same.
COMMANDS = """
List the runs of this series:
`kubectl get disttests -n ${namespace:percentencode} --field-selector status.series=${series:percentencode}`

Show the report of a run, with all cases, ranks and stacks: `kubectl disttest report NAME -n ${namespace:percentencode}`
(`-o html` for an HTML page)

Show the DistTestSeries with the data of these panels:
`kubectl get disttestseries ${series:percentencode} -n ${namespace:percentencode} -o yaml`
"""
UNSCHEDULED = "absent without a CronJob, or while it is suspended"
IDLE = "absent while no run is active"


def _one(metric: str, title: str, about: str, style: FieldStyle, or_empty: str = "") -> Item:
    factor = " * 1000" if style is AGO else ""  # Grafana counts in milliseconds
    ask = Ask(f"max({metric}{{{SINGLE}}}){factor}", or_empty=or_empty)
    return stat_of(Head(title, about, width=3, height=4), ask, style)


def _now() -> DashboardSection:
    passed = "Time when the last passed run finished."
    rate = "Passed runs of the last 30. InfraFailed and Cancelled runs do not count."
    flips = "How often, in the last 30 runs, a run passed and the next did not, or vice versa."
    streak = "Number of runs in a row that passed; negative: that did not pass."
    start = "Creation time of the oldest active run."
    due = "Time when the timeouts of an active run require its next phase or verdict."
    items = (
        _one("disttest:verdict:code", "Last verdict", "Verdict of the last finished run.", VERDICT),
        _one("disttest_run_streak", "Streak", streak, STREAK),
        _one("disttest_last_completion_timestamp_seconds", "Finished", "Time when the last run finished.", AGO),
        _one("disttest_last_success_timestamp_seconds", "Last pass", passed, AGO, UNPASSED),
        _one("disttest_pass_ratio", "Pass rate", rate, PASSED),
        _one("disttest_flip_ratio", "Flip rate", flips, SHARE),
        _one("disttest_active_run_start_timestamp_seconds", "Active since", start, AGO, IDLE),
        _one("disttest_active_run_deadline_timestamp_seconds", "Deadline", due, AGO, IDLE),
    )
    return DashboardSection(title="Now", items=items)


def _schedule() -> DashboardSection:
    following = "Time of the next scheduled run."
    due = "The last scheduled time whose run should have finished."
    every = "Time between the last scheduled run and the next."
    overdue = Head("Missing", "Whether a scheduled run is overdue.", width=3, height=4)
    missing = Ask(f"max(disttest:schedule:missed{{{SINGLE}}} > bool 0)", or_empty=UNSCHEDULED)
    pending = Head("Pending in ledger", "Runs that are counted but may not have their verdict yet.", width=3, height=4)
    items = (
        _one("disttest_schedule_next_timestamp_seconds", "Next scheduled", following, AGO, UNSCHEDULED),
        _one("disttest_schedule_due_timestamp_seconds", "Due", due, AGO, UNSCHEDULED),
        _one("disttest_schedule_interval_seconds", "Scheduled every", every, SPAN, UNSCHEDULED),
        _one("disttest_schedule_suspended", "Suspended", "Whether the CronJob is suspended.", KNOWN, UNSCHEDULED),
        stat_of(overdue, missing, FieldStyle(words=styles.YES_IS_BAD)),
        stat_of(pending, Ask(f"sum(disttest_ledger_pending_runs{{{SINGLE}}}) or vector(0)"), ODD),
    )
    return DashboardSection(title="Schedule", items=items)


def _nights() -> DashboardSection:
    verdicts = cells(
        Head(
            "Verdict by day",
            "The verdict of the last run that finished on each day (UTC). Empty: no metrics were scraped.",
            width=24,
            height=4,
        ),
        Ask(promql.verdict_of_night(SINGLE), "{{series}}"),
        VERDICT,
    )
    suites = cells(
        Head("Suites by day", "Whether each suite passed in the last run of each day.", width=24, height=10),
        Ask(f"max by (suite) ({if_ran(f'disttest_suite_last_success{{{SINGLE}}}', SINGLE)})", "{{suite}}"),
        FieldStyle(words=styles.SUITES),
    )
    commands = words(Head("Report of a run", "Commands that show a run.", width=24, height=5), COMMANDS)
    return DashboardSection(title="Verdicts", items=(verdicts, suites, commands))


def _cases() -> DashboardSection:
    def column(name: str, metric: str, style: FieldStyle) -> TableColumn:
        return TableColumn(name, f"max by (suite) ({metric}{{{SINGLE}}})", style=style)

    suites = table_of(
        Head("Suites now", "Flips: most changes of one case between pass and failure in the last 30 runs.", width=10),
        Rows(keys=(("suite", "Suite"),), sort="Failing"),
        (
            column("Failing", "disttest_failing_cases", BAD),
            column("Newly failing", "disttest_newly_failing_cases", BAD),
            column("Flaky", "disttest_flaky_cases", ODD),
            column("Flips", "disttest_case_flips", FieldStyle()),
            column("Duration", "disttest_suite_last_duration_seconds", SPAN),
        ),
    )
    outcomes = bars(
        Head("Cases by outcome", "Cases of the last run of each day, by outcome.", width=24, step=promql.NIGHT),
        Ask(f"sum by (outcome) ({if_ran(f'disttest_last_run_cases{{{SINGLE}}}', SINGLE)})", "{{outcome}}"),
        FieldStyle(decimals=0, colours=styles.OUTCOMES),
    )
    return DashboardSection(
        title="Cases",
        items=(
            series_table.cases_by_name(SINGLE, ()),
            suites,
            series_table.cases_by_night(SINGLE, ("suite", "case")),
            outcomes,
        ),
    )


BOARD = Board(
    uid="disttest-series",
    title="DistTest / Series",
    description="Details of one series: verdicts, suites, cases, durations, reasons and software.",
    since="now-60d",
    refresh="5m",
    variables=(panels.DATASOURCE, panels.ONE_NAMESPACE, panels.ONE_SERIES),
    sections=(_now(), _nights(), _cases(), durations(), runs(), _schedule(), active()),
)
