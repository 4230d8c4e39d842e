"""The dashboard of the operator: active replica, speed, answers of the API server, dropped series."""

from tools.dashboards.boards import panels, styles
from tools.dashboards.boards.board import Board, DashboardSection, Item
from tools.dashboards.boards.panels import Ask, Head, lines, summary, timeline
from tools.dashboards.boards.promql import OWN, RATE, count_or_zero, quantile, rate_by, sum_or_zero
from tools.dashboards.boards.series_table import alerts_firing
from tools.dashboards.boards.styles import FieldStyle
from tools.dashboards.boards.tables import Rows, TableColumn, table_of

FIRING = 'ALERTS{alertname=~"DistTest.*", alertstate="firing"}'
PLAIN_HTTP = "absent over plain HTTP"


def exports() -> DashboardSection:
    scrapes = lines(
        Head("Scrapes", "Requests for /metrics by answer.", width=8),
        (Ask(rate_by("disttest_metrics_requests_total", "code"), "{{code}}"),),
        FieldStyle(unit="reqps", lowest=0),
    )
    missing = "max by (family) (disttest_dropped_series) > 0"
    dropped = table_of(
        Head("Series cut by family", "At least so many series of each family are missing."),
        Rows(keys=(("family", "Family"),), sort="Missing"),
        (
            TableColumn(
                "Missing",
                missing,
                style=FieldStyle(by_steps=True, steps=styles.ANY_IS_ODD),
                or_empty="no family is cut",
            ),
        ),
    )
    firing = alerts_firing(FIRING, "All alerts of DistTest; docs/runbook.md says what to do.")
    return DashboardSection(title="What it tells", items=(scrapes, *_certificate(), dropped, firing))


def _certificate() -> tuple[Item, Item]:
    left = f"min by (instance, source) (disttest_metrics_certificate_expiry_timestamp_seconds{{{OWN}}}) - time()"
    warned = FieldStyle(unit="s", lowest=0, steps=((None, "transparent"), (7 * 86400, styles.RED)), dashed=True)
    refusals = f"sum by (instance) (increase(disttest_metrics_certificate_refusals_total{{{OWN}}}[1h]))"
    return (
        lines(
            Head(
                "Certificate is valid for",
                "Of the certificate that scrapers are shown: from `files`, or the operator's `own`. Dashed: a week.",
                width=8,
            ),
            (Ask(left, "{{instance}} {{source}}", or_empty=PLAIN_HTTP),),
            warned,
        ),
        lines(
            Head(
                "Certificates refused",
                "Looks at `--metrics-certificates` in an hour that found what cannot be used; what was shown stays.",
                width=8,
            ),
            (Ask(refusals, "{{instance}}", or_empty=PLAIN_HTTP),),
            FieldStyle(lowest=0, decimals=0),
        ),
    )


COUNTED = FieldStyle(lowest=0, decimals=0)
LATENCY = FieldStyle(unit="s", log=10)


def _durations(histogram: str, by: str, or_empty: str) -> tuple[Ask, ...]:
    shown = f"{{{{{by}}}}} " if by else ""
    bucket = f"{histogram}_bucket{{{OWN}}}"
    shares = ((0.5, "half"), (0.99, "99 of 100"))
    return tuple(Ask(quantile(share, bucket, by, RATE), f"{shown}{name}", or_empty=or_empty) for share, name in shares)


def _third(title: str, about: str) -> Head:
    return Head(title, about, width=8)


def work() -> DashboardSection:
    reports = "sum by (transport, outcome) (increase(disttest_results_ingested_total[1h]))"
    return DashboardSection(
        title="Work",
        items=(
            lines(
                _third("Reconciles", "Looks at a run or a series by kind and result."),
                (Ask(rate_by("disttest_reconciles_total", "kind, result"), "{{kind}} {{result}}"),),
                FieldStyle(unit="ops", lowest=0),
            ),
            lines(
                _third("Duration of a reconcile", "Half of the looks, and 99 of 100, took no longer."),
                _durations("disttest_reconcile_duration_seconds", "kind", "nothing was reconciled"),
                LATENCY,
            ),
            lines(
                _third("Wait for a worker", "Half of the keys, and 99 of 100, waited no longer."),
                _durations("disttest_queue_wait_seconds", "", "no key waited"),
                LATENCY,
            ),
            lines(
                _third("Queue", "Keys that wait for a worker, by replica."),
                (Ask(f"max by (instance) (disttest_queue_depth{{{OWN}}})", "{{instance}}"),),
                COUNTED,
            ),
            lines(
                _third("Writes of ledgers", "In an hour, by result. Conflicts are tried again."),
                (Ask("sum by (result) (increase(disttest_ledger_writes_total[1h]))", "{{result}}"),),
                COUNTED,
            ),
            lines(
                _third("Reports", "Reports that were asked for in an hour, by where from and what came."),
                (Ask(reports, "{{transport}} {{outcome}}"),),
                COUNTED,
            ),
        ),
    )


def api() -> DashboardSection:
    refused = f'disttest_api_requests_total{{{OWN}, code!~"2.."}}'
    bucket = f"disttest_api_request_duration_seconds_bucket{{{OWN}}}"
    return DashboardSection(
        title="API server",
        items=(
            lines(
                _third("Requests to the API server", "By verb and resource, watches included."),
                (Ask(rate_by("disttest_api_requests_total", "verb, resource"), "{{verb}} {{resource}}"),),
                FieldStyle(unit="reqps", lowest=0),
            ),
            lines(
                _third("Requests refused or lost", "By verb and code; `error`: no answer."),
                (
                    Ask(
                        f"sum by (verb, code) (rate({refused}[{RATE}])) > 0",
                        "{{verb}} {{code}}",
                        or_empty="all were answered well",
                    ),
                ),
                FieldStyle(unit="reqps", lowest=0),
            ),
            lines(
                _third("Latency of the API server", "99 of 100 requests took no longer; watches excluded."),
                (Ask(quantile(0.99, bucket, "verb", RATE), "{{verb}}", or_empty="no request was made"),),
                LATENCY,
            ),
        ),
    )


def watches() -> DashboardSection:
    hangs = FieldStyle(unit="s", lowest=0, steps=((None, "transparent"), (420, styles.RED)), dashed=True)
    return DashboardSection(
        title="Watches",
        items=(
            _age(
                "Silence",
                "How long ago each watch last told something.",
                "disttest_last_event",
                FieldStyle(unit="s", log=10),
            ),
            _age(
                "Age",
                "How long ago each watch was begun anew. Four minutes are usual; beyond seven it hangs.",
                "disttest_watch_begun",
                hangs,
            ),
            lines(
                _third("Healed by resync", "Objects whose change or deletion a watch had not told, in an hour."),
                (Ask(f"sum by (resource) (increase(disttest_resync_healed_total{{{OWN}}}[1h]))", "{{resource}}"),),
                COUNTED,
            ),
        ),
    )


def _age(title: str, about: str, metric: str, style: FieldStyle) -> Item:
    expr = f"time() - min by (instance, resource) ({metric}_timestamp_seconds{{{OWN}}})"
    return lines(_third(f"{title} of watches", about), (Ask(expr, "{{resource}} {{instance}}"),), style)


OWN_PROCESS = f"disttest_build_info{{{OWN}}}"


def _of_process(metric: str, *, per_second: bool = False) -> str:
    """A metric of every process, limited to processes with disttest_build_info."""
    asked = f"rate({metric}[{RATE}])" if per_second else metric
    return f"max by (instance) ({asked} and on (job, instance) {OWN_PROCESS})"


def _now() -> DashboardSection:
    exactly_one = ((None, styles.RED), (1, styles.GREEN), (2, styles.RED))
    rows = (
        (
            "Active replicas",
            "Exactly one replica holds the Lease. While it is 0 nothing is done.",
            sum_or_zero(f"disttest_leader{{{OWN}}}"),
            exactly_one,
        ),
        ("Replicas", "Replicas that are scraped.", count_or_zero(OWN_PROCESS), styles.NEUTRAL),
        (
            "Keys that wait",
            "Runs and series that wait for a worker.",
            sum_or_zero(f"disttest_queue_depth{{{OWN}}}"),
            ((None, styles.GREEN), (100, styles.YELLOW), (1000, styles.RED)),
        ),
        (
            "Counted, status open",
            "Runs that are counted and whose own status may not say so yet, over all series.",
            sum_or_zero("disttest_ledger_pending_runs"),
            ((None, styles.GREEN), (16, styles.YELLOW)),
        ),
        (
            "Series cut",
            "Series of metrics that are missing because of a bound.",
            sum_or_zero("disttest_dropped_series"),
            styles.ANY_IS_ODD,
        ),
        ("Alerts firing", "Alerts of DistTest that fire now.", count_or_zero(FIRING), styles.ANY_IS_BAD),
    )
    return summary(rows, width=4)


def _replicas() -> DashboardSection:
    leads = timeline(
        Head("Who acts", "Which replica holds the Lease and acts.", width=16, height=6),
        Ask(f"max by (instance) (disttest_leader{{{OWN}}})", "{{instance}}"),
        FieldStyle(words=styles.LEADS),
    )
    scraped = f"max by (instance, version) ({OWN_PROCESS})"
    versions = table_of(
        Head("Versions", "What each replica runs.", width=8, height=6),
        Rows(keys=(("instance", "Replica"), ("version", "Version")), sort="Replica", descending=False),
        (TableColumn("Scraped", scraped, style=FieldStyle(words=styles.YES_IS_GOOD), width=80),),
    )
    cpu = lines(
        Head("CPU", "Cores that each replica used.", width=8),
        (Ask(_of_process("process_cpu_seconds_total", per_second=True), "{{instance}}"),),
        FieldStyle(lowest=0),
    )
    memory = lines(
        Head("Memory", "Resident memory of each replica.", width=8),
        (Ask(_of_process("process_resident_memory_bytes"), "{{instance}}"),),
        FieldStyle(unit="bytes", lowest=0),
    )
    files = lines(
        Head("Open files", "Files and connections. Dashed: the limit.", width=8),
        (
            Ask(_of_process("process_open_fds"), "{{instance}}"),
            Ask(_of_process("process_max_fds"), "{{instance}} limit", dashed=True),
        ),
        FieldStyle(log=10),
    )
    return DashboardSection(title="Replicas", items=(leads, versions, cpu, memory, files))


BOARD = Board(
    uid="disttest-operator",
    title="DistTest / Operator",
    description="The operator itself: leader, queue, reconciles, API server, watches, ledgers, reports, processes.",
    since="now-24h",
    refresh="1m",
    variables=(panels.DATASOURCE, panels.INSTANCES),
    sections=(_now(), _replicas(), work(), api(), watches(), exports()),
)
