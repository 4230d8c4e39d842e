"""`disttest compare`: what changed between two runs, nights of a series or report files."""

import sys
from collections.abc import Sequence

import click

from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.compare import pull_request, renderers
from disttest_cli.compare.differences import compare
from disttest_cli.errors import UsageError, warn
from disttest_cli.formats import documents
from disttest_cli.input import files
from disttest_cli.kube import stored
from disttest_cli.views import terminal
from disttest_contract.outcomes import ExitCode
from disttest_contract.results.report import Report
from disttest_operator.core.api.model import GROUP

RUN_KIND = f"disttest.{GROUP}/"
FILE_ENDS = (".json", ".json.gz")
EARLIER = 8  # reports in addition to A and B: a series retains ten
HOW = "name two of: a run, a night as SERIES@-1, a report's file; or one series with --series"


@click.command("compare")
@click.argument("references", nargs=-1, metavar="[A B]")
@click.option("--series", default="", metavar="SERIES", help="Its newest night, with the newest before it that passed.")
@click.option(
    "--against",
    type=click.IntRange(min=0, max=30),
    metavar="N",
    help=f"Learn what noise is from N more reports of B's series; default: {EARLIER} with --series, else 0.",
)
@click.option("--exit-zero", is_flag=True, help="Exit code 0 also if something got worse.")
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
    """Say what changed from A to B: cases, durations and bandwidths beyond noise, and what the runs were made with.

    A and B are names of runs; or nights of a series with a kept report: SERIES@0 the newest, SERIES@-1 the one before
    it, SERIES@passed the newest that passed, SERIES@2026-11-20 the last one of a day (UTC); or files: what has a slash
    or ends in .json or .json.gz.

    Exit code: 0 nothing got worse; 10 something did: a case fails that did not, or is no longer reached; a case, a
    suite or a bandwidth is slower than noise explains; or B did not pass and A did. 2 wrong command or no report,
    42 a busy API server.
    """
    a, b = _both(cluster, references, series)
    most = (EARLIER if series else 0) if against is None else against
    comparison = compare(a, b, _earlier(cluster, a, b, most, series=series or b.series))
    if output == "json":
        sys.stdout.write(documents.as_json(renderers.json_document(comparison), indent=2))
    elif output == "markdown":
        print(pull_request.page(comparison), end="")
    else:
        terminal.show(renderers.lines(comparison))
    return ExitCode.TESTS_FAILED if comparison.worse and not exit_zero else 0


def _both(cluster: ClusterOptions, references: Sequence[str], series: str) -> tuple[Report, Report]:
    if series and not references:
        from disttest_cli.kube import series as kept  # noqa: PLC0415  # as above

        return kept.last_change_reports(cluster.server, cluster.namespace, series)
    if series or len(references) != 2:
        raise UsageError(f"compare takes two, or --series alone: {HOW}")
    if references[0] == references[1] == files.STDIN:
        raise UsageError("standard input holds one report: name a file for the other")
    return _find(cluster, references[0]), _find(cluster, references[1])


def _find(cluster: ClusterOptions, reference: str) -> Report:
    if _is_file(reference):
        return stored.read_file(reference)
    from disttest_cli.kube import series as kept  # noqa: PLC0415  # as above

    return kept.report(cluster.server, cluster.namespace, reference)


def _is_file(reference: str) -> bool:
    """Whether the reference is a file; names of runs have a slash only after the kind, as printed by -o name."""
    has_slash = "/" in reference and not reference.startswith(RUN_KIND)
    return reference == files.STDIN or has_slash or reference.endswith(FILE_ENDS)


def _earlier(cluster: ClusterOptions, a: Report, b: Report, most: int, *, series: str) -> list[Report]:
    """Read more reports of the series; warn about those that are not available."""
    if not most:
        return []
    from disttest_cli.kube import series as kept  # noqa: PLC0415  # as above

    found, missing = kept.earlier_reports(cluster.server, cluster.namespace, series, (a.uid, b.uid), most)
    for why in missing:
        warn(f"left out: {why}")
    return found
