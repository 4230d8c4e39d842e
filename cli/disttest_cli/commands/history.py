import sys
from datetime import UTC, datetime
from typing import Any

import click

from disttest_cli import fields
from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.errors import UsageError
from disttest_cli.formats import documents
from disttest_cli.kube import error_advice
from disttest_cli.kube import series as ledgers
from disttest_cli.kube.client import Body
from disttest_cli.kube.series import SeriesHistory
from disttest_cli.views import series_text, terminal
from disttest_contract.text import escaping

WIDE = "wide"
LIMIT = 30  # size of a ledger
LEFT_OUT = ("pending", "totals")  # fields of a ledger that the operator uses internally


@click.command("history")
@click.argument("name", required=False, default="", metavar="[SERIES]")
@click.option(
    "--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, metavar="N", help="Maximum number of rows."
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Without SERIES: list the series of all namespaces.")
@options.output(WIDE, "json", "yaml", "name")
@options.on_cluster
def command(
    *,
    name: str,
    limit: int,
    all_namespaces: bool,
    output: str | None,
    cluster: ClusterOptions,
) -> int:
    """Show the last runs of SERIES, newest first; without SERIES, list the series of the namespace.

    Below the runs: pass rate, failing cases and since when, cases that alternate between passing and failing, and
    suspect nodes. REPORT is `retained` if `disttest compare` and `disttest report` can read the report after the run is
    deleted. -o json and -o yaml print the status of the series, oldest run first.

    Exit codes: 0, 2 usage error, not found or no permission, 42 API server busy.
    """
    if name and all_namespaces:
        raise UsageError("-A lists series. Remove -A or SERIES.")
    with error_advice.explaining():
        server = cluster.server
        where = "" if all_namespaces else cluster.namespace
        if not name:
            return _list(ledgers.every_series(server, where)[:limit], where, output)
        series = ledgers.find(server, where, name)
    if output in ("json", "yaml"):
        sys.stdout.write(documents.document(_document(series, limit), output))
    elif output == "name":
        print(f"{ledgers.KIND}/{escaping.line(series.name)}")
    else:
        terminal.show(series_text.page(series, limit=limit, wide=output == WIDE))
    return 0


def _list(bodies: list[Body], namespace: str, output: str | None) -> int:
    if output in ("json", "yaml"):
        items = [{"namespace": fields.namespace(body), **_head(body)} for body in bodies]
        sys.stdout.write(documents.document({"series": items}, output))
    elif output == "name":
        for body in bodies:
            print(f"{ledgers.KIND}/{escaping.line(fields.name(body))}")
    elif bodies:
        terminal.show(series_text.series_table(bodies, now=datetime.now(UTC), namespaces=not namespace))
    else:
        place = f"in namespace {namespace}" if namespace else "in any namespace"
        print(escaping.line(f"No series {place}. {ledgers.FIRST_SERIES}"), file=sys.stderr)
    return 0


def _head(body: Body) -> dict[str, Any]:
    status = fields.status(body)
    plain = {key: value for key, value in status.items() if not isinstance(value, list | dict)}
    return {"name": fields.name(body), **plain}


def _document(series: SeriesHistory, limit: int) -> dict[str, Any]:
    status = {key: value for key, value in series.status.items() if key not in LEFT_OUT}
    return {
        "namespace": series.namespace,
        "name": series.name,
        **status,
        "runs": fields.rows(series.status.get("runs"))[-limit:],
    }
