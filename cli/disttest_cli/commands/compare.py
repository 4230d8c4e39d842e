"""`disttest compare`: what changed from one run to another, or from one night of a series to the last."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import click

from disttest_cli.commands import options
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

if TYPE_CHECKING:
    from disttest_cli.kube.client import Cluster

RUN_KIND = f"disttest.{GROUP}/"
FILE_ENDS = (".json", ".json.gz")
EARLIER = 8  # reports beside A and B: a series keeps ten
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
    namespace: str,
    context: str,
    kubeconfig: str,
) -> int:
    """Say what changed from A to B: cases, durations and bandwidths beyond noise, and what the runs were made with.

    A and B are names of runs; or nights of a series with a kept report: SERIES@0 the newest, SERIES@-1 the one before
    it, SERIES@passed the newest that passed, SERIES@2026-11-20 the last one of a day (UTC); or files: what has a slash
    or ends in .json or .json.gz.

    Exit code: 0 nothing got worse; 10 something did: a case fails that did not, or is no longer reached; a case, a
    suite or a bandwidth is slower than noise explains; or B did not pass and A did. 2 wrong command or no report,
    42 a busy API server.
    """
    place = _LazyCluster(namespace=namespace, context=context, kubeconfig=kubeconfig)
    a, b = _both(place, references, series)
    most = (EARLIER if series else 0) if against is None else against
    comparison = compare(a, b, _earlier(place, a, b, most, series=series or b.series))
    if output == "json":
        sys.stdout.write(documents.as_json(renderers.json_document(comparison), indent=2))
    elif output == "markdown":
        print(pull_request.page(comparison), end="")
    else:
        terminal.show(renderers.lines(comparison))
    return ExitCode.TESTS_FAILED if comparison.worse and not exit_zero else 0


@dataclass(frozen=True, kw_only=True)
class _LazyCluster:
    """A cluster that is asked only if something is to be found there: files need no Kubernetes client."""

    namespace: str
    context: str
    kubeconfig: str

    @cached_property
    def server(self) -> "Cluster":
        from disttest_cli.kube import connect  # noqa: PLC0415  # as above

        return connect.connect(kubeconfig=self.kubeconfig, context=self.context)

    @property
    def chosen(self) -> str:
        return self.namespace or self.server.namespace


def _both(place: _LazyCluster, references: Sequence[str], series: str) -> tuple[Report, Report]:
    if series and not references:
        from disttest_cli.kube import references as wanted  # noqa: PLC0415  # as above

        return wanted.last_change(place.server, place.chosen, series)
    if series or len(references) != 2:
        raise UsageError(f"compare takes two, or --series alone: {HOW}")
    if references[0] == references[1] == files.STDIN:
        raise UsageError("standard input holds one report: name a file for the other")
    return _find(place, references[0]), _find(place, references[1])


def _find(place: _LazyCluster, reference: str) -> Report:
    if _is_file(reference):
        return stored.read_file(reference)
    from disttest_cli.kube import references  # noqa: PLC0415  # as above

    return references.report(place.server, place.chosen, reference)


def _is_file(reference: str) -> bool:
    """No run has a slash or a dot in its name; but with its kind before it, as -o name writes it."""
    has_slash = "/" in reference and not reference.startswith(RUN_KIND)
    return reference == files.STDIN or has_slash or reference.endswith(FILE_ENDS)


def _earlier(place: _LazyCluster, a: Report, b: Report, most: int, *, series: str) -> list[Report]:
    """Read more reports of the series; one that is not available is reported and left out."""
    if not most:
        return []
    from disttest_cli.kube import references  # noqa: PLC0415  # as above

    found, missing = references.earlier(place.server, place.chosen, series, (a.uid, b.uid), most)
    for why in missing:
        warn(f"left out: {why}")
    return found
