import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from disttest_cli import lazy
from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.compare import renderers
from disttest_cli.compare.differences import compare
from disttest_cli.errors import UsageError, warn
from disttest_cli.formats import documents
from disttest_cli.input import files
from disttest_cli.kube import stored
from disttest_cli.views import terminal
from disttest_contract.outcomes import ExitCode
from disttest_contract.results.report import Report
from disttest_operator.core.api.model import GROUP

if TYPE_CHECKING:
    from disttest_cli.kube import series as ledgers
else:
    ledgers = lazy.module("disttest_cli.kube.series")  # files are compared without a Kubernetes client

RUN_KIND = f"disttest.{GROUP}/"
FILE_ENDS = (".json", ".json.gz")
EARLIER = 8  # reports in addition to A and B; a series retains 10
HOW = "Give two runs, positions in a series (SERIES@-1) or report files; or one series with --series."


@click.command("compare")
@click.argument("references", nargs=-1, metavar="[A B]")
@click.option(
    "--series",
    default="",
    metavar="SERIES",
    help="Compare the newest run of SERIES with the last earlier one that passed.",
)
@click.option(
    "--against",
    type=click.IntRange(min=0, max=30),
    metavar="N",
    help=(
        f"Number of additional reports of B's series for the noise estimate. Default: {EARLIER} with --series, else 0."
    ),
)
@click.option("--exit-zero", is_flag=True, help="Exit with code 0 even if something got worse.")
@options.output("json", "markdown")
@options.on_cluster
def command(
    *,
    references: tuple[str, ...],
    series: str,
    against: int | None,
    exit_zero: bool,
    output: str | None,
    cluster: ClusterOptions,
) -> int:
    """Show what changed from A to B: cases, environment, and durations and bandwidths beyond noise.

    A and B are names of runs, or report files (./FILE, FILE.json, FILE.json.gz, - is standard input). SERIES@0 is the
    newest run of a series with a retained report, and SERIES@-1 is the one before it. SERIES@passed is the newest that
    passed, and SERIES@2026-11-20 is the last run of this day (UTC).

    Exit codes: 0 nothing got worse, 10 something got worse, 2 usage error or missing report, 42 API server busy.
    """
    a, b = _both(cluster, references, series)
    most = (EARLIER if series else 0) if against is None else against
    comparison = compare(a, b, _earlier(cluster, a, b, most, series=series or b.series))
    if output == "json":
        sys.stdout.write(documents.as_json(renderers.json_document(comparison), indent=2))
    elif output == "markdown":
        print(renderers.markdown(comparison), end="")
    else:
        terminal.show(renderers.lines(comparison))
    return ExitCode.TESTS_FAILED if comparison.worse and not exit_zero else 0


def _both(cluster: ClusterOptions, references: Sequence[str], series: str) -> tuple[Report, Report]:
    if series and not references:
        return ledgers.last_change_reports(cluster.server, cluster.namespace, series)
    if series or len(references) != 2:
        raise UsageError(f"compare needs two arguments, or only --series. {HOW}")
    if references[0] == references[1] == files.STDIN:
        raise UsageError("standard input contains one report. Name a file for the other one.")
    return _find(cluster, references[0]), _find(cluster, references[1])


def _find(cluster: ClusterOptions, reference: str) -> Report:
    if _is_file(reference):
        return stored.read_file(reference)
    return ledgers.report(cluster.server, cluster.namespace, reference)


def _is_file(reference: str) -> bool:
    """Whether the reference is a file; names of runs have a slash only after the kind, as -o name prints them."""
    has_slash = "/" in reference and not reference.startswith(RUN_KIND)
    return reference == files.STDIN or has_slash or reference.endswith(FILE_ENDS)


def _earlier(cluster: ClusterOptions, a: Report, b: Report, most: int, *, series: str) -> list[Report]:
    """Read more reports of the series; warn about those that are not available."""
    if not most:
        return []
    found, missing = ledgers.earlier_reports(cluster.server, cluster.namespace, series, (a.uid, b.uid), most)
    for why in missing:
        warn(f"omitted: {why}")
    return found
