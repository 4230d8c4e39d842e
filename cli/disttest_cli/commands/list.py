"""`disttest list`: the DistTests of a namespace, newest first."""

import sys
from datetime import UTC, datetime

import click

from disttest_cli.commands import options
from disttest_cli.kube import connect, resources
from disttest_cli.views import printing, run_table, terminal
from disttest_contract.outcomes import Verdict
from disttest_contract.text import escaping

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
    namespace: str,
    context: str,
    kubeconfig: str,
) -> int:
    """List the DistTests of a namespace, newest first.

    PROGRESS: cases that had their turn, of those known so far. FAILED: all that ended badly (failed, errored, crashed,
    hung), but for those in quarantine. DURATION of a run that goes on is until now. For programs: -o json, which
    prints what `kubectl get dt -o json` does.

    Exit code: 0, also when there are none; 2 wrong command, no rights, or DistTests not installed; 42 a busy API
    server.
    """
    with connect.explaining():
        server = connect.connect(kubeconfig=kubeconfig, context=context)
        where = "" if all_namespaces else namespace or server.namespace
        fields = {"status.series": series, "status.verdict": verdict or ""}
        found = run_table.newest_first(
            server.list(
                resources.RUNS,
                where,
                label_selector=selector,
                field_selector=",".join(f"{field}={value}" for field, value in fields.items() if value),
            )
        )
    if output and output != WIDE:
        sys.stdout.write(printing.several(found, output))
    elif found:
        lines = run_table.table(found, now=datetime.now(UTC), wide=output == WIDE, namespaces=all_namespaces)
        terminal.show(lines)
        if sys.stdout.isatty():  # what goes into a pipe stays a table
            terminal.show([terminal.line((run_table.LEGEND, terminal.QUIET))])
    else:
        such = " that match" if selector or series or verdict else ""
        place = f"in namespace {where}" if where else "in any namespace"
        print(escaping.line(f"No DistTests{such} {place}."), file=sys.stderr)
    return 0
