"""`disttest list`: the DistTests of a namespace, newest first."""

import sys
from datetime import UTC, datetime

import click

from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.formats import documents
from disttest_cli.kube import api_errors
from disttest_cli.views import run_list, terminal
from disttest_contract.outcomes import Verdict
from disttest_contract.text import escaping
from disttest_operator.core.api.resources import Kind

WIDE = "wide"


@click.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of all namespaces.")
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only those with these labels, as kubectl has it: a=b,c!=d."
)
@click.option("--series", default="", metavar="SERIES", help="Only runs of this series.")
@click.option(
    "--verdict",
    type=click.Choice([verdict.value for verdict in Verdict], case_sensitive=False),
    metavar="VERDICT",
    help=f"Only runs that came to this: {', '.join(Verdict)}.",
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

    PROGRESS: cases that had their turn, of those known so far. FAILED: all that ended badly (failed, errored, crashed,
    hung), but for those in quarantine. DURATION of a run that goes on is until now. For programs: -o json, which
    prints what `kubectl get dt -o json` does.

    Exit code: 0, also when there are none; 2 wrong command, no rights, or DistTests not installed; 42 a busy API
    server.
    """
    with api_errors.explaining():
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
        if sys.stdout.isatty():  # a pipe gets only the table
            terminal.show([terminal.line((run_list.LEGEND, terminal.QUIET))])
    else:
        such = " that match" if selector or series or verdict else ""
        place = f"in namespace {where}" if where else "in any namespace"
        print(escaping.line(f"No DistTests{such} {place}."), file=sys.stderr)
    return 0
