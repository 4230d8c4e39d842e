import sys
from datetime import UTC, datetime

import click

from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.formats import documents
from disttest_cli.kube import error_advice
from disttest_cli.views import run_list, terminal
from disttest_contract.outcomes import Verdict
from disttest_contract.text import escaping
from disttest_operator.core.api.resources import Kind

WIDE = "wide"


@click.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="List runs of all namespaces.")
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only runs with these labels, as in kubectl: a=b,c!=d."
)
@click.option("--series", default="", metavar="SERIES", help="Only runs of this series.")
@click.option(
    "--verdict",
    type=click.Choice([verdict.value for verdict in Verdict], case_sensitive=False),
    metavar="VERDICT",
    help=f"Only runs with this verdict: {', '.join(Verdict)}.",
)
@options.output(WIDE, "json", "yaml", "name")
@options.on_cluster
def command(
    *,
    all_namespaces: bool,
    selector: str,
    series: str,
    verdict: str | None,
    output: str | None,
    cluster: ClusterOptions,
) -> int:
    """List the DistTests of a namespace, newest first.

    PROGRESS is the number of finished cases, of those collected. FAILED is the number of cases that failed, errored,
    crashed or hung outside of quarantine. For scripts, use -o json.

    Exit codes: 0 (also without runs), 2 usage error, no permission or DistTests not installed, 42 API server busy.
    """
    with error_advice.explaining():
        where = "" if all_namespaces else cluster.namespace
        fields = {"status.series": series, "status.verdict": verdict or ""}
        found = run_list.newest_first(
            cluster.server.list(
                Kind.RUN,
                where,
                label_selector=selector,
                field_selector=",".join(f"{field}={value}" for field, value in fields.items() if value),
            )
        )
    if output and output != WIDE:
        sys.stdout.write(documents.several(found, output))
    elif found:
        lines = run_list.table(found, now=datetime.now(UTC), wide=output == WIDE, namespaces=all_namespaces)
        terminal.show(lines)
        if sys.stdout.isatty():  # a pipe receives only the table
            terminal.show([terminal.line((run_list.LEGEND, terminal.QUIET))])
    else:
        such = " that match" if selector or series or verdict else ""
        place = f"in namespace {where}" if where else "in any namespace"
        print(escaping.line(f"No DistTests{such} {place}."), file=sys.stderr)
    return 0
