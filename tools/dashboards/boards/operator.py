"""The dashboard of the operator: active replica, latency, responses of the API server, dropped series."""

from tools.dashboards.boards import panels, styles
from tools.dashboards.boards.board import Board, DashboardSection, Item
from tools.dashboards.boards.panels import Ask, Head, Rows, TableColumn, lines, summary, table_of, timeline
from tools.dashboards.boards.promql import OWN, RATE, quantile, rate_by
from tools.dashboards.boards.series_table import ODD, alerts_firing
from tools.dashboards.boards.styles import FieldStyle

FIRING = 'ALERTS{alertname=~"DistTest.*", alertstate="firing"}'
PLAIN_HTTP = "absent over plain HTTP"


def exports() -> DashboardSection:
    scrapes = lines(
        Head("Scrapes", "Requests for /metrics by status code.", width=8),
        (Ask(rate_by("disttest_metrics_requests_total", "code"), "{{code}}"),),
        FieldStyle(unit="reqps", lowest=0),
    )
    missing = "max by (family) (disttest_dropped_series) > 0"
    dropped = table_of(
        Head("Dropped time series by family", "Minimum number of time series that are missing."),
        Rows(keys=(("family", "Family"),), sort="Missing"),
        (TableColumn("Missing", missing, style=ODD, or_empty="no family is truncated"),),
    )
    firing = alerts_firing(
        FIRING, "Alerts of DistTest that are firing. For their fixes, see docs/operating/runbook.md."
    )
    return DashboardSection(title="Metrics and alerts", items=(scrapes, *_certificate(), dropped, firing))


def _certificate() -> tuple[Item, Item]:
    left = f"min by (instance, source) (disttest_metrics_certificate_expiry_timestamp_seconds{{{OWN}}}) - time()"
    warned = FieldStyle(unit="s", lowest=0, steps=((None, "transparent"), (7 * 86400, styles.RED)), dashed=True)
    load_errors = f"sum by (instance) (increase(disttest_metrics_certificate_load_errors_total{{{OWN}}}[1h]))"
    return (
        lines(
            Head(
                "Validity of the certificate",
                "Time until the certificate of /metrics expires, from `files` or `own` (self-signed). Dashed: 7 days.",
                width=8,
            ),
            (Ask(left, "{{instance}} {{source}}", or_empty=PLAIN_HTTP),),
            warned,
        ),
        lines(
            Head(
                "Certificate load errors",
                "Failed loads of `--metrics-certificates` per hour. The operator keeps the old certificate.",
                width=8,
            ),
            (Ask(load_errors, "{{instance}}", or_empty=PLAIN_HTTP),),
            FieldStyle(lowest=0, decimals=0),
        ),
    )


COUNTED = FieldStyle(lowest=0, decimals=0)
LOG_SECONDS = FieldStyle(unit="s", log=10)


def _durations(histogram: str, by: str, or_empty: str) -> tuple[Ask, ...]:
    shown = f"{{{{{by}}}}} " if by else ""
    bucket = f"{histogram}_bucket{{{OWN}}}"
    shares = ((0.5, "median"), (0.99, "99th percentile"))
    return tuple(Ask(quantile(share, bucket, by, RATE), f"{shown}{name}", or_empty=or_empty) for share, name in shares)


def _third(title: str, about: str) -> Head:
    return Head(title, about, width=8)


def work() -> DashboardSection:
    reports = "sum by (transport, outcome) (increase(disttest_results_ingested_total[1h]))"
    return DashboardSection(
        title="Work",
        items=(
            lines(
                _third("Reconciles", "Reconciles of runs and series by kind and result."),
                (Ask(rate_by("disttest_reconciles_total", "kind, result"), "{{kind}} {{result}}"),),
                FieldStyle(unit="ops", lowest=0),
            ),
            lines(
                _third("Duration of a reconcile", "Median and 99th percentile."),
                _durations("disttest_reconcile_duration_seconds", "kind", "nothing was reconciled"),
                LOG_SECONDS,
            ),
            lines(
                _third("Wait for a worker", "Time that keys wait for a worker: median and 99th percentile."),
                _durations("disttest_queue_wait_seconds", "", "no key waited"),
                LOG_SECONDS,
            ),
            lines(
                _third("Queue", "Keys that wait for a worker, by replica."),
                (Ask(f"max by (instance) (disttest_queue_depth{{{OWN}}})", "{{instance}}"),),
                COUNTED,
            ),
            lines(
                _third("Writes of DistTestSeries", "Writes per hour by result. Conflicts are retried."),
                (Ask("sum by (result) (increase(disttest_ledger_writes_total[1h]))", "{{result}}"),),
                COUNTED,
            ),
            lines(
                _third("Reports", "Requested reports per hour, by source and result."),
                (Ask(reports, "{{transport}} {{outcome}}"),),
                COUNTED,
            ),
        ),
    )


def api() -> DashboardSection:
    failed = f'sum by (verb, code) (rate(disttest_api_requests_total{{{OWN}, code!~"2.."}}[{RATE}])) > 0'
    bucket = f"disttest_api_request_duration_seconds_bucket{{{OWN}}}"
    return DashboardSection(
        title="API server",
        items=(
            lines(
                _third("Requests to the API server", "Requests by verb and resource, including watches."),
                (Ask(rate_by("disttest_api_requests_total", "verb, resource"), "{{verb}} {{resource}}"),),
                FieldStyle(unit="reqps", lowest=0),
            ),
            lines(
                _third("Failed requests", "Requests by verb and code. `error`: no response."),
                (Ask(failed, "{{verb}} {{code}}", or_empty="no request failed"),),
                FieldStyle(unit="reqps", lowest=0),
            ),
            lines(
                _third("Latency of the API server", "99th percentile by verb, without watches."),
                (Ask(quantile(0.99, bucket, "verb", RATE), "{{verb}}", or_empty="no request was made"),),
                LOG_SECONDS,
            ),
        ),
    )


def watches() -> DashboardSection:
    age = "Time since each watch was restarted. Four minutes are normal; above seven, the watch hangs."
    missed = f"sum by (resource) (increase(disttest_watch_missed_changes_total{{{OWN}}}[1h]))"
    hangs = FieldStyle(unit="s", lowest=0, steps=((None, "transparent"), (420, styles.RED)), dashed=True)
    return DashboardSection(
        title="Watches",
        items=(
            _age("Last event", "Time since each watch last received an event.", "disttest_last_event", LOG_SECONDS),
            _age("Age", age, "disttest_watch_start", hangs),
            lines(
                _third("Changes missed by watches", "Objects per hour whose change or deletion a watch missed."),
                (Ask(missed, "{{resource}}"),),
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
    active = "Replicas that hold the Lease. Must be 1; at 0, no run continues."
    pending = "Runs of all series that are counted but may not have their verdict yet."
    dropped = "Time series that are missing because of a limit."
    exactly_one = ((None, styles.RED), (1, styles.GREEN), (2, styles.RED))
    from_16 = ((None, styles.GREEN), (16, styles.YELLOW))
    from_100 = ((None, styles.GREEN), (100, styles.YELLOW), (1000, styles.RED))
    rows = (
        ("Active replicas", active, f"sum(disttest_leader{{{OWN}}})", exactly_one),
        ("Replicas", "Replicas that are scraped.", f"count({OWN_PROCESS})", styles.NEUTRAL),
        ("Queue length", "Runs and series that wait for a worker.", f"sum(disttest_queue_depth{{{OWN}}})", from_100),
        ("Pending in ledgers", pending, "sum(disttest_ledger_pending_runs)", from_16),
        ("Dropped time series", dropped, "sum(disttest_dropped_series)", styles.ANY_IS_ODD),
        ("Alerts firing", "Alerts of DistTest that are firing.", f"count({FIRING})", styles.ANY_IS_BAD),
    )
    return summary(rows, width=4)


def _replicas() -> DashboardSection:
    leads = timeline(
        Head("Active replica", "The replica that holds the Lease.", width=16, height=6),
        Ask(f"max by (instance) (disttest_leader{{{OWN}}})", "{{instance}}"),
        FieldStyle(words=styles.LEADS),
    )
    scraped = f"max by (instance, version) ({OWN_PROCESS})"
    versions = table_of(
        Head("Versions", "Version of each replica.", width=8, height=6),
        Rows(keys=(("instance", "Replica"), ("version", "Version")), sort="Replica", descending=False),
        (TableColumn("Scraped", scraped, style=FieldStyle(words=styles.YES_IS_GOOD), width=80),),
    )
    cpu = lines(
        Head("CPU", "CPU cores in use by each replica.", width=8),
        (Ask(_of_process("process_cpu_seconds_total", per_second=True), "{{instance}}"),),
        FieldStyle(lowest=0),
    )
    memory = lines(
        Head("Memory", "Resident memory of each replica.", width=8),
        (Ask(_of_process("process_resident_memory_bytes"), "{{instance}}"),),
        FieldStyle(unit="bytes", lowest=0),
    )
    files = lines(
        Head("Open files", "Open files and connections of each replica. Dashed: the limit.", width=8),
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
    description="The operator: active replica, queue, reconciles, API server, watches, reports and processes.",
    since="now-24h",
    refresh="1m",
    variables=(panels.DATASOURCE, panels.INSTANCES),
    sections=(_now(), _replicas(), work(), api(), watches(), exports()),
)
