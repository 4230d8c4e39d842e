"""One series in depth."""

from monitoring.dashboards import cases, looks, promql, variables
from monitoring.dashboards.board import Board, Item, Section
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Ask, Head, bars, cells, stat_of, words
from monitoring.dashboards.promql import SINGLE, if_ran, sum_or_zero
from monitoring.dashboards.runs import active, durations, runs
from monitoring.dashboards.standing import AGO, BAD, ODD, PASSED, SHARE, STREAK
from monitoring.dashboards.tables import Column, Rows, table_of

# Encoded: who sends a link to a dashboard writes these values, and a name of Kubernetes stays as it is.
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
    ("Last verdict", "Of the last finished run.", "disttest:verdict:code", Look(words=looks.VERDICTS), ALWAYS),
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
        Look(unit="s"),
        UNSCHEDULED,
    ),
    (
        "Suspended",
        "Whether the CronJob is suspended.",
        "disttest_schedule_suspended",
        Look(words=looks.YES_IS_KNOWN),
        UNSCHEDULED,
    ),
)


def _one(title: str, about: str, metric: str, look: Look, or_empty: str) -> Item:
    factor = " * 1000" if look is AGO else ""  # Grafana counts in milliseconds
    expr = f"max({metric}{{{SINGLE}}}){factor}"
    return stat_of(Head(title, about, width=3, height=4), Ask(expr, or_empty=or_empty), look)


def _schedule() -> tuple[Item, ...]:
    missing = stat_of(
        Head("Missing", "A scheduled run should be finished by now and is not.", width=3, height=4),
        Ask(f"max(disttest:schedule:missed{{{SINGLE}}} > bool 0)", or_empty=UNSCHEDULED),
        Look(words=looks.YES_IS_BAD),
    )
    pending = stat_of(
        Head("Counted, status open", "Runs whose own status may not say yet that they are counted.", width=3, height=4),
        Ask(sum_or_zero(f"disttest_ledger_pending_runs{{{SINGLE}}}")),
        ODD,
    )
    return (*(_one(*row) for row in SCHEDULE), missing, pending)


def _nights() -> Section:
    verdicts = cells(
        Head(
            "Verdict of each night",
            "The verdict of the last run that finished on each day (UTC); an empty cell: nothing was scraped.",
            width=24,
            height=4,
        ),
        Ask(promql.verdict_of_night(SINGLE), "{{series}}"),
        Look(words=looks.VERDICTS),
    )
    suites = cells(
        Head("Suites of each night", "Whether each suite passed in the last run of each day.", width=24, height=10),
        Ask(f"max by (suite) ({if_ran(f'disttest_suite_last_success{{{SINGLE}}}', SINGLE)})", "{{suite}}"),
        Look(words=looks.SUITES),
    )
    commands = words(Head("The whole report of a run", "Commands to type.", width=24, height=4), COMMANDS)
    return Section(title="Nights", items=(verdicts, suites, commands))


def _cases() -> Section:
    def column(name: str, metric: str, look: Look) -> Column:
        return Column(name, f"max by (suite) ({metric}{{{SINGLE}}})", look=look)

    suites = table_of(
        Head("Suites now", "Flips: most changes of one case between good and bad within 30 runs.", width=10),
        Rows(keys=(("suite", "Suite"),), sort="Failing"),
        (
            column("Failing", "disttest_failing_cases", BAD),
            column("Newly", "disttest_newly_failing_cases", BAD),
            column("Flaky", "disttest_flaky_cases", ODD),
            column("Flips", "disttest_case_flips", Look()),
            column("Took", "disttest_suite_last_duration_seconds", Look(unit="s")),
        ),
    )
    outcomes = bars(
        Head("Cases by outcome", "All cases of the last run of each day.", width=24, step=promql.NIGHT),
        Ask(f"sum by (outcome) ({if_ran(f'disttest_last_run_cases{{{SINGLE}}}', SINGLE)})", "{{outcome}}"),
        Look(decimals=0, colours=looks.OUTCOMES),
    )
    return Section(
        title="Cases", items=(cases.named(SINGLE, ()), suites, cases.by_night(SINGLE, ("suite", "case")), outcomes)
    )


BOARD = Board(
    uid="disttest-series",
    title="DistTest / Series",
    description="One series in depth: its nights, suites, cases, durations, reasons and software.",
    since="now-60d",
    refresh="5m",
    variables=(variables.DATASOURCE, variables.ONE_NAMESPACE, variables.ONE_SERIES),
    sections=(
        Section(title="Now", items=tuple(_one(*row) for row in NOW)),
        _nights(),
        _cases(),
        durations(),
        runs(),
        Section(title="Schedule", items=_schedule()),
        active(),
    ),
)
