"""The operator itself: who acts, how fast it is, what the API server answers, and whether it tells everything."""

from monitoring.dashboards import looks, variables
from monitoring.dashboards.board import Board, Item, Section
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Ask, Head, lines, stat_of, timeline
from monitoring.dashboards.promql import OWN, RATE, count_or_zero, sum_or_zero
from monitoring.dashboards.tables import Column, Rows, table_of
from monitoring.dashboards.told import FIRING, told
from monitoring.dashboards.work import api, watches, work

OWN_PROCESS = f"disttest_build_info{{{OWN}}}"


def _number(title: str, about: str, expr: str, steps: looks.Steps) -> Item:
    return stat_of(Head(title, about, width=4, height=4), Ask(expr), Look(steps=steps, by_steps=True))


def _of_process(metric: str, *, per_second: bool = False) -> str:
    """A metric that every process has, of those only that tell disttest_build_info."""
    asked = f"rate({metric}[{RATE}])" if per_second else metric
    return f"max by (instance) ({asked} and on (job, instance) {OWN_PROCESS})"


def _now() -> Section:
    exactly_one = ((None, looks.RED), (1, looks.GREEN), (2, looks.RED))
    rows = (
        (
            "Active replicas",
            "Exactly one replica holds the Lease. While it is 0 nothing is done.",
            sum_or_zero(f"disttest_leader{{{OWN}}}"),
            exactly_one,
        ),
        ("Replicas", "Replicas that are scraped.", count_or_zero(OWN_PROCESS), looks.NEUTRAL),
        (
            "Keys that wait",
            "Runs and series that wait for a worker.",
            sum_or_zero(f"disttest_queue_depth{{{OWN}}}"),
            ((None, looks.GREEN), (100, looks.YELLOW), (1000, looks.RED)),
        ),
        (
            "Counted, status open",
            "Runs that are counted and whose own status may not say so yet, over all series.",
            sum_or_zero("disttest_ledger_pending_runs"),
            ((None, looks.GREEN), (16, looks.YELLOW)),
        ),
        (
            "Series cut",
            "Series of metrics that are missing because of a bound.",
            sum_or_zero("disttest_dropped_series"),
            looks.ANY_IS_ODD,
        ),
        ("Alerts firing", "Alerts of DistTest that fire now.", count_or_zero(FIRING), looks.ANY_IS_BAD),
    )
    return Section(title="Now", items=tuple(_number(*row) for row in rows))


def _replicas() -> Section:
    leads = timeline(
        Head("Who acts", "Which replica holds the Lease and acts.", width=16, height=6),
        Ask(f"max by (instance) (disttest_leader{{{OWN}}})", "{{instance}}"),
        Look(words=looks.LEADS),
    )
    scraped = f"max by (instance, version) ({OWN_PROCESS})"
    versions = table_of(
        Head("Versions", "What each replica runs.", width=8, height=6),
        Rows(keys=(("instance", "Replica"), ("version", "Version")), sort="Replica", descending=False),
        (Column("Scraped", scraped, look=Look(words=looks.YES_IS_GOOD), width=80),),
    )
    cpu = lines(
        Head("CPU", "Cores that each replica used.", width=8),
        (Ask(_of_process("process_cpu_seconds_total", per_second=True), "{{instance}}"),),
        Look(lowest=0),
    )
    memory = lines(
        Head("Memory", "Resident memory of each replica.", width=8),
        (Ask(_of_process("process_resident_memory_bytes"), "{{instance}}"),),
        Look(unit="bytes", lowest=0),
    )
    files = lines(
        Head("Open files", "Files and connections. Dashed: the limit.", width=8),
        (
            Ask(_of_process("process_open_fds"), "{{instance}}"),
            Ask(_of_process("process_max_fds"), "{{instance}} limit", dashed=True),
        ),
        Look(log=10),
    )
    return Section(title="Replicas", items=(leads, versions, cpu, memory, files))


BOARD = Board(
    uid="disttest-operator",
    title="DistTest / Operator",
    description="The operator itself: leader, queue, reconciles, API server, watches, ledgers, reports, processes.",
    since="now-24h",
    refresh="1m",
    variables=(variables.DATASOURCE, variables.INSTANCES),
    sections=(_now(), _replicas(), work(), api(), watches(), told()),
)
