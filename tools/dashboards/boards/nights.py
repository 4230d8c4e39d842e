"""The dashboard of all series: what failed, since when, and where the time goes."""

from tools.dashboards.boards import panels, promql, series_table, styles
from tools.dashboards.boards.board import Board, DashboardSection
from tools.dashboards.boards.panels import Ask, Head, bars, cells, lines, ranking, summary, words
from tools.dashboards.boards.promql import MANY, PER_SERIES, count_or_zero, in_night, of_night, sum_or_zero
from tools.dashboards.boards.styles import FieldStyle

TO_SERIES = (
    "This series in depth",
    "/d/disttest-series?${datasource:queryparam}&var-namespace=${__field.labels.namespace}"  # noqa: ISC004  # one link
    "&var-series=${__field.labels.series}&${__url_time_range}",
)
NAME = "{{namespace}}/{{series}}"
CODE = f"disttest:verdict:code{{{MANY}}}"
# `|` at the end also matches alerts without a series.
FIRING = 'ALERTS{alertname=~"DistTest.*", alertstate="firing", namespace=~"$namespace|", series=~"$series|"}'
COMMANDS = """
Runs of a series: `kubectl get disttests -A --field-selector status.series=SERIES`

The report of one run, with every case, rank and stack: `kubectl disttest report NAME -n NAMESPACE`
(`-o html` for one page to keep). Why a run ended as it did: `kubectl get disttest NAME -n NAMESPACE -o yaml`
"""


def _now() -> DashboardSection:
    bad, odd = styles.ANY_IS_BAD, styles.ANY_IS_ODD
    rows = (
        ("Series", "Series with a ledger.", count_or_zero(f"disttest_run_streak{{{MANY}}}"), styles.NEUTRAL),
        (
            "Red series",
            "Series whose last run was neither passed nor cancelled.",
            count_or_zero(f"{CODE} >= 2 and {CODE} < 5"),
            bad,
        ),
        (
            "Scheduled runs missing",
            "Series of which a scheduled run should be finished by now and is not.",
            count_or_zero(f"disttest:schedule:missed{{{MANY}}} > 0"),
            bad,
        ),
        (
            "Newly failing",
            "Cases that are bad and were good the time before.",
            sum_or_zero(f"disttest_newly_failing_cases{{{MANY}}}"),
            bad,
        ),
        ("Failing", "Cases that were bad when they last ran.", sum_or_zero(f"disttest_failing_cases{{{MANY}}}"), bad),
        (
            "Flaky",
            "Cases that passed only when tried again, or broke more than once, within 30 runs.",
            sum_or_zero(f"disttest_flaky_cases{{{MANY}}}"),
            odd,
        ),
        ("Active runs", "Runs without a verdict.", sum_or_zero(f"disttest_active_runs{{{MANY}}}"), styles.NEUTRAL),
        ("Alerts firing", "Alerts of DistTest that fire now.", count_or_zero(FIRING), bad),
    )
    return summary(rows, width=3)


def _verdicts() -> DashboardSection:
    head = Head(
        "Verdict of each night",
        "One cell for each series and day (UTC): the verdict of the last run that finished on that day. No run, and a "
        "missing scheduled run, are cells of their own; an empty cell means that nothing was scraped.",
        width=24,
        height=10,
        link=TO_SERIES,
    )
    grid = cells(head, Ask(promql.verdict_of_night(MANY), NAME), FieldStyle(words=styles.VERDICTS))
    commands = words(Head("The whole report of a run", "Commands to type.", width=24, height=4), COMMANDS)
    return DashboardSection(title="Nights", items=(grid, series_table.series_now(), commands))


def _cases() -> DashboardSection:
    about = "Alerts of DistTest that fire now; docs/runbook.md says what to do."
    firing = series_table.alerts_firing(FIRING, about, width=10)
    named = series_table.cases_by_name(MANY, series_table.KEYS, series_table.TO_SERIES)
    return DashboardSection(title="Cases", items=(named, firing, series_table.cases_by_night(MANY, ("series", "case"))))


def _nightly(title: str, about: str, *, width: int = 8) -> Head:
    return Head(title, about, width=width, step=promql.NIGHT)


def _trends() -> DashboardSection:
    def total(metric: str) -> str:
        return f"sum({of_night(f'{metric}{{{MANY}}}')})"

    ratio = lines(
        _nightly("Passed in 7 days", "Passed runs among those of 7 days, without infrastructure failures."),
        (Ask(f"max by ({PER_SERIES}) ({of_night(f'disttest:pass_ratio:7d{{{MANY}}}')})", NAME),),
        FieldStyle(
            unit="percentunit", lowest=0, highest=1, steps=((None, "transparent"), (0.8, styles.RED)), dashed=True
        ),
    )
    counts = lines(
        _nightly("Failing, newly failing and flaky cases", "Over all chosen series, at the end of each day."),
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
        _nightly(
            "Cases that were not good", "Cases of the runs of each day by outcome; passed, skipped, xfailed left out."
        ),
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
        Head("Longest suites", "How long suites took in the last run of each series: the 15 longest."),
        Ask(longest, "{{series}} {{suite}}"),
        FieldStyle(unit="s", lowest=0),
    )
    return DashboardSection(title="Time", items=(steps, suites))


BOARD = Board(
    uid="disttest-nights",
    title="DistTest / Nights",
    description="Months of nights: verdicts, streaks, failing and flaky cases, schedules, and where the time goes.",
    since="now-60d",
    refresh="5m",
    variables=(panels.DATASOURCE, panels.NAMESPACES, panels.SERIES),
    sections=(_now(), _verdicts(), _cases(), _trends(), _time()),
)
