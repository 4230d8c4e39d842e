"""What the operator tells: scrapes, the certificate that it shows, what is cut, alerts."""

from monitoring.dashboards import looks
from monitoring.dashboards.board import Item, Section
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Ask, Head, lines
from monitoring.dashboards.promql import OWN, rate_by
from monitoring.dashboards.tables import Column, Rows, table_of

FIRING = 'ALERTS{alertname=~"DistTest.*", alertstate="firing"}'
PLAIN_HTTP = "absent over plain HTTP"


def told() -> Section:
    scrapes = lines(
        Head("Scrapes", "Requests for /metrics by answer.", width=8),
        (Ask(rate_by("disttest_metrics_requests_total", "code"), "{{code}}"),),
        Look(unit="reqps", lowest=0),
    )
    missing = "max by (family) (disttest_dropped_series) > 0"
    dropped = table_of(
        Head("Series cut by family", "At least so many series of each family are missing."),
        Rows(keys=(("family", "Family"),), sort="Missing"),
        (Column("Missing", missing, look=Look(by_steps=True, steps=looks.ANY_IS_ODD), or_empty="no family is cut"),),
    )
    return Section(title="What it tells", items=(scrapes, *_certificate(), dropped, _firing()))


def _certificate() -> tuple[Item, Item]:
    left = f"min by (instance, source) (disttest_metrics_certificate_expiry_timestamp_seconds{{{OWN}}}) - time()"
    warned = Look(unit="s", lowest=0, steps=((None, "transparent"), (7 * 86400, looks.RED)), dashed=True)
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
            Look(lowest=0, decimals=0),
        ),
    )


def _firing() -> Item:
    keys = (("alertname", "Alert"), ("severity", "Severity"), ("namespace", "Namespace"), ("series", "Series"))
    expr = f"max by ({', '.join(label for label, _ in keys)}) ({FIRING})"
    return table_of(
        Head("Alerts firing by name", "All alerts of DistTest; docs/runbook.md says what to do."),
        Rows(keys=keys, sort="Alert", descending=False),
        (Column("Firing", expr, look=Look(words=looks.YES_IS_BAD), width=70, or_empty="absent while no alert fires"),),
    )
