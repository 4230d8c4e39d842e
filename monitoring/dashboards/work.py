"""The operator's work: reconciles, queue, ledgers, reports, the API server and watches."""

from monitoring.dashboards import looks
from monitoring.dashboards.board import Item, Section
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Ask, Head, lines
from monitoring.dashboards.promql import OWN, RATE, quantile, rate_by

COUNTED = Look(lowest=0, decimals=0)
LATENCY = Look(unit="s", log=10)


def _durations(histogram: str, by: str, or_empty: str) -> tuple[Ask, ...]:
    shown = f"{{{{{by}}}}} " if by else ""
    bucket = f"{histogram}_bucket{{{OWN}}}"
    shares = ((0.5, "half"), (0.99, "99 of 100"))
    return tuple(Ask(quantile(share, bucket, by, RATE), f"{shown}{name}", or_empty=or_empty) for share, name in shares)


def _third(title: str, about: str) -> Head:
    return Head(title, about, width=8)


def work() -> Section:
    reports = "sum by (transport, outcome) (increase(disttest_results_ingested_total[1h]))"
    return Section(
        title="Work",
        items=(
            lines(
                _third("Reconciles", "Looks at a run or a series by kind and result."),
                (Ask(rate_by("disttest_reconciles_total", "kind, result"), "{{kind}} {{result}}"),),
                Look(unit="ops", lowest=0),
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


def api() -> Section:
    refused = f'disttest_api_requests_total{{{OWN}, code!~"2.."}}'
    bucket = f"disttest_api_request_duration_seconds_bucket{{{OWN}}}"
    return Section(
        title="API server",
        items=(
            lines(
                _third("Requests to the API server", "By verb and resource, watches included."),
                (Ask(rate_by("disttest_api_requests_total", "verb, resource"), "{{verb}} {{resource}}"),),
                Look(unit="reqps", lowest=0),
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
                Look(unit="reqps", lowest=0),
            ),
            lines(
                _third("Latency of the API server", "99 of 100 requests took no longer; watches excluded."),
                (Ask(quantile(0.99, bucket, "verb", RATE), "{{verb}}", or_empty="no request was made"),),
                LATENCY,
            ),
        ),
    )


def watches() -> Section:
    hangs = Look(unit="s", lowest=0, steps=((None, "transparent"), (420, looks.RED)), dashed=True)
    return Section(
        title="Watches",
        items=(
            _age(
                "Silence", "How long ago each watch last told something.", "disttest_last_event", Look(unit="s", log=10)
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


def _age(title: str, about: str, metric: str, look: Look) -> Item:
    expr = f"time() - min by (instance, resource) ({metric}_timestamp_seconds{{{OWN}}})"
    return lines(_third(f"{title} of watches", about), (Ask(expr, "{{resource}} {{instance}}"),), look)
