"""The dashboard of one series."""

from tools.dashboards.boards import panels, promql, series_table, styles
from tools.dashboards.boards.board import Board, DashboardSection, Item
from tools.dashboards.boards.panels import Ask, Head, bars, cells, lines, stat_of, words
from tools.dashboards.boards.promql import SINGLE, if_ran, in_night, quantile, sum_or_zero
from tools.dashboards.boards.series_table import AGO, BAD, ODD, PASSED, SHARE, STREAK
from tools.dashboards.boards.styles import FieldStyle
from tools.dashboards.boards.tables import Rows, TableColumn, table_of

SECONDS = FieldStyle(unit="s", lowest=0)
WHOLE = FieldStyle(decimals=0)


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
                _nightly("Steps of each night", "How long each step of the last run of the day took."),
                Ask(f"max by (step) ({steps})", "{{step}}", at_least=6),
                SECONDS,
            ),
            bars(
                _nightly("Suites by seconds", "How long each suite of that run took."),
                Ask(f"max by (suite) ({suites})", "{{suite}}"),
                SECONDS,
            ),
            lines(
                _nightly(
                    "Duration of runs, 7 days",
                    "From the start of the whole gang to the verdict: half of the runs of 7 days, and 19 of 20, "
                    "took no longer. Read from buckets.",
                ),
                (
                    Ask(quantile(0.5, took, "", "7d"), "half"),
                    Ask(quantile(0.95, took, "", "7d"), "19 of 20"),
                ),
                SECONDS,
            ),
            lines(
                _nightly(
                    "Wait for the whole gang, 7 days",
                    "From the creation of a run until its last pod had a node, by queue: 9 of 10 waited no longer.",
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
    # Increases are extrapolated between samples: 0.5 separates none from one.
    counted = f"sum by (verdict, reason) (increase(disttest_runs_total{{{SINGLE}}}[$__range])) > 0.5"
    reasons = table_of(
        Head("Reasons", "Runs within the time range by verdict and reason."),
        Rows(keys=(("verdict", "Verdict"), ("reason", "Reason")), sort="Runs"),
        (TableColumn("Runs", counted, style=WHOLE),),
    )
    again = bars(
        _nightly("Attempts repeated", "Attempts that were followed by another, by why they ended."),
        Ask(
            f"sum by (reason) ({in_night(f'disttest_retries_total{{{SINGLE}}}')}) > 0.5",
            "{{reason}}",
            or_empty="no attempt was repeated",
        ),
        WHOLE,
    )
    hangs = bars(
        _nightly("Hangs", "Cases that hung, those too that passed when they were tried again, by suite."),
        Ask(
            f"sum by (suite) ({in_night(f'disttest_hangs_total{{{SINGLE}}}')}) > 0.5",
            "{{suite}}",
            or_empty="no case hung",
        ),
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
    expr, known = f"max by ({labels}) (disttest_info{{{SINGLE}}})", FieldStyle(words=styles.YES_IS_KNOWN)
    made_with = table_of(
        Head("Made with", "Software and GPU of the last run that had results.", width=16),
        Rows(keys=keys, sort="torch"),
        (TableColumn("In use", expr, style=known, or_empty="absent before the first run with results"),),
    )
    return DashboardSection(title="Active runs, and what runs are made with", items=(phases, made_with))


# Encoded, because the sender of a link chooses these values; names in Kubernetes stay the same.
COMMANDS = """
Runs of this series:
`kubectl get disttests -n ${namespace:percentencode} --field-selector status.series=${series:percentencode}`

The report of one, with every case, rank and stack: `kubectl disttest report NAME -n ${namespace:percentencode}`
(`-o html` for one page to keep)

The ledger behind these panels:
`kubectl get disttestseries ${series:percentencode} -n ${namespace:percentencode} -o yaml`
"""
ALWAYS = ""
UNSCHEDULED = "absent without a CronJob, or while it is suspended"
IDLE = "absent while no run is active"
NOW = (
    ("Last verdict", "Of the last finished run.", "disttest:verdict:code", FieldStyle(words=styles.VERDICTS), ALWAYS),
    ("Streak", "So many runs in a row passed; negative: did not.", "disttest_run_streak", STREAK, ALWAYS),
    ("Finished", "When the last run finished.", "disttest_last_completion_timestamp_seconds", AGO, ALWAYS),
    (
        "Passed last",
        "When the last passed run finished.",
        "disttest_last_success_timestamp_seconds",
        AGO,
        "absent before the first success",
    ),
    ("Passed of 30", "Without InfraFailed and Cancelled.", "disttest_pass_ratio", PASSED, ALWAYS),
    ("Changes of 30", "How often a run passed and the next did not, or reverse.", "disttest_flip_ratio", SHARE, ALWAYS),
    ("Active since", "Creation of the oldest active run.", "disttest_active_run_start_timestamp_seconds", AGO, IDLE),
    (
        "Must move on",
        "By when that run must have moved on or have its verdict, by its own timeouts.",
        "disttest_active_run_deadline_timestamp_seconds",
        AGO,
        IDLE,
    ),
)
SCHEDULE = (
    ("Next scheduled", "When the next run starts.", "disttest_schedule_next_timestamp_seconds", AGO, UNSCHEDULED),
    (
        "Due",
        "The last scheduled time of which the run should be finished by now.",
        "disttest_schedule_due_timestamp_seconds",
        AGO,
        UNSCHEDULED,
    ),
    (
        "Scheduled every",
        "From the last scheduled time to the next.",
        "disttest_schedule_interval_seconds",
        FieldStyle(unit="s"),
        UNSCHEDULED,
    ),
    (
        "Suspended",
        "Whether the CronJob is suspended.",
        "disttest_schedule_suspended",
        FieldStyle(words=styles.YES_IS_KNOWN),
        UNSCHEDULED,
    ),
)


def _one(title: str, about: str, metric: str, style: FieldStyle, or_empty: str) -> Item:
    factor = " * 1000" if style is AGO else ""  # Grafana counts in milliseconds
    expr = f"max({metric}{{{SINGLE}}}){factor}"
    return stat_of(Head(title, about, width=3, height=4), Ask(expr, or_empty=or_empty), style)


def _schedule() -> tuple[Item, ...]:
    missing = stat_of(
        Head("Missing", "A scheduled run should be finished by now and is not.", width=3, height=4),
        Ask(f"max(disttest:schedule:missed{{{SINGLE}}} > bool 0)", or_empty=UNSCHEDULED),
        FieldStyle(words=styles.YES_IS_BAD),
    )
    pending = stat_of(
        Head("Counted, status open", "Runs whose own status may not say yet that they are counted.", width=3, height=4),
        Ask(sum_or_zero(f"disttest_ledger_pending_runs{{{SINGLE}}}")),
        ODD,
    )
    return (*(_one(*row) for row in SCHEDULE), missing, pending)


def _nights() -> DashboardSection:
    verdicts = cells(
        Head(
            "Verdict of each night",
            "The verdict of the last run that finished on each day (UTC); an empty cell: nothing was scraped.",
            width=24,
            height=4,
        ),
        Ask(promql.verdict_of_night(SINGLE), "{{series}}"),
        FieldStyle(words=styles.VERDICTS),
    )
    suites = cells(
        Head("Suites of each night", "Whether each suite passed in the last run of each day.", width=24, height=10),
        Ask(f"max by (suite) ({if_ran(f'disttest_suite_last_success{{{SINGLE}}}', SINGLE)})", "{{suite}}"),
        FieldStyle(words=styles.SUITES),
    )
    commands = words(Head("The whole report of a run", "Commands to type.", width=24, height=4), COMMANDS)
    return DashboardSection(title="Nights", items=(verdicts, suites, commands))


def _cases() -> DashboardSection:
    def column(name: str, metric: str, style: FieldStyle) -> TableColumn:
        return TableColumn(name, f"max by (suite) ({metric}{{{SINGLE}}})", style=style)

    suites = table_of(
        Head("Suites now", "Flips: most changes of one case between good and bad within 30 runs.", width=10),
        Rows(keys=(("suite", "Suite"),), sort="Failing"),
        (
            column("Failing", "disttest_failing_cases", BAD),
            column("Newly", "disttest_newly_failing_cases", BAD),
            column("Flaky", "disttest_flaky_cases", ODD),
            column("Flips", "disttest_case_flips", FieldStyle()),
            column("Took", "disttest_suite_last_duration_seconds", FieldStyle(unit="s")),
        ),
    )
    outcomes = bars(
        Head("Cases by outcome", "All cases of the last run of each day.", width=24, step=promql.NIGHT),
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
    description="One series in depth: its nights, suites, cases, durations, reasons and software.",
    since="now-60d",
    refresh="5m",
    variables=(panels.DATASOURCE, panels.ONE_NAMESPACE, panels.ONE_SERIES),
    sections=(
        DashboardSection(title="Now", items=tuple(_one(*row) for row in NOW)),
        _nights(),
        _cases(),
        durations(),
        runs(),
        DashboardSection(title="Schedule", items=_schedule()),
        active(),
    ),
)
