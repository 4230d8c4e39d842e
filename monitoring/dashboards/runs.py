"""Runs of one series: durations, verdicts and reasons, active ones, and what they are made with."""

from monitoring.dashboards import looks, promql
from monitoring.dashboards.board import Section
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Ask, Head, bars, lines
from monitoring.dashboards.promql import SINGLE, if_ran, in_night, quantile
from monitoring.dashboards.tables import Column, Rows, table_of

SECONDS = Look(unit="s", lowest=0)
WHOLE = Look(decimals=0)


def _nightly(title: str, about: str) -> Head:
    return Head(title, about, step=promql.NIGHT)


def durations() -> Section:
    steps = if_ran(f"disttest_last_run_step_seconds{{{SINGLE}}}", SINGLE)
    suites = if_ran(f"disttest_suite_last_duration_seconds{{{SINGLE}}}", SINGLE)
    took = f"disttest_run_duration_seconds_bucket{{{SINGLE}}}"
    waited = f"disttest_gang_wait_seconds_bucket{{{SINGLE}}}"
    return Section(
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


def runs() -> Section:
    verdicts = bars(
        _nightly("Runs by verdict", "Runs that finished on each day."),
        Ask(f"sum by (verdict) ({in_night(f'disttest_runs_total{{{SINGLE}}}')})", "{{verdict}}"),
        Look(decimals=0, colours=looks.RUN_VERDICTS),
    )
    # Increases are guesses between samples: 0.5 parts none from one.
    counted = f"sum by (verdict, reason) (increase(disttest_runs_total{{{SINGLE}}}[$__range])) > 0.5"
    reasons = table_of(
        Head("Reasons", "Runs within the time range by verdict and reason."),
        Rows(keys=(("verdict", "Verdict"), ("reason", "Reason")), sort="Runs"),
        (Column("Runs", counted, look=WHOLE),),
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
    return Section(title="Runs", items=(verdicts, reasons, again, hangs))


def active() -> Section:
    phases = lines(
        Head("Active runs", "Runs without a verdict, by phase.", width=8),
        (Ask(f"sum by (phase) (disttest_active_runs{{{SINGLE}}})", "{{phase}}"),),
        Look(lowest=0, decimals=0),
    )
    labels = "torch_version, nccl_version, gpu_product, backend"
    keys = (("torch_version", "torch"), ("nccl_version", "NCCL"), ("gpu_product", "GPU"), ("backend", "Backend"))
    expr, known = f"max by ({labels}) (disttest_info{{{SINGLE}}})", Look(words=looks.YES_IS_KNOWN)
    made_with = table_of(
        Head("Made with", "Software and GPU of the last run that had results.", width=16),
        Rows(keys=keys, sort="torch"),
        (Column("In use", expr, look=known, or_empty="absent before the first run with results"),),
    )
    return Section(title="Active runs, and what runs are made with", items=(phases, made_with))
