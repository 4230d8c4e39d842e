"""Runs, nights and series by the names that people write, and their reports. Asks the cluster."""

import difflib
from collections.abc import Sequence

from disttest_cli.errors import UsageError
from disttest_cli.kube import connect, fields, nights, resources, runs, stored
from disttest_cli.kube.client import Body, Cluster
from disttest_cli.kube.nights import NightRun, SeriesHistory
from disttest_contract.results.report import Report
from disttest_contract.text import escaping
from disttest_operator.core.api import schema

FIRST_SERIES = "a series begins when the first run with its name in `spec.series` has its verdict"
KIND = "disttestseries.disttest.dev"  # as -o name writes it
LISTED = 5


def report(server: Cluster, namespace: str, reference: str) -> Report:
    """Of NAME or SERIES@POSITION."""
    if "@" in reference:
        name, position = nights.split(reference)
        there = series(server, namespace, name)
        return of_night(server, there, nights.choose(there, position))
    name = runs.bare_name(reference)
    if not schema.matches(runs.NAME, name):
        raise UsageError(
            f"{escaping.line(reference)!r} is neither a run, a night nor a file: runs are in `disttest list -n "
            f"{namespace}`, nights are SERIES@{nights.NEWEST}, files have a slash or end in .json or .json.gz"
        )
    return stored.find(server, namespace, name).report


def of_night(server: Cluster, series_: SeriesHistory, night: NightRun) -> Report:
    """Names of runs may be given again; the ledger knows them by uid."""
    found = stored.find(server, series_.namespace, night.name).report
    if found.uid != night.uid:
        raise UsageError(
            f"the report of {night.name!r} that series {series_.name!r} counted at {night.time} is gone, another run "
            "has its name: choose another night"
        )
    return found


def last_change(server: Cluster, namespace: str, name: str) -> tuple[Report, Report]:
    """Of the newest night, behind what it is to be held against."""
    found = series(server, namespace, name)
    before, newest = nights.last_change(found)
    return of_night(server, found, before), of_night(server, found, newest)


def earlier(
    server: Cluster, namespace: str, name: str, besides: tuple[str, str], most: int
) -> tuple[list[Report], list[str]]:
    """Return reports of the series but for those with these uids, and why others are not available."""
    if not name:
        raise UsageError("--against takes more reports of B's series, but B has no series: omit --against")
    found, missing = [], []
    there = series(server, namespace, name)
    for night in nights.earlier(there, besides, most):
        try:
            found.append(of_night(server, there, night))
        except UsageError as error:
            missing.append(str(error))
    return found, missing


def series(server: Cluster, namespace: str, name: str) -> SeriesHistory:
    """Raises CommandError with one line that says why there is none, and what to do."""
    bare = name.removeprefix(f"{KIND}/")
    if not schema.matches(runs.NAME, bare):
        raise UsageError(
            f"{escaping.line(name)!r} is no name of a series: `disttest history -n {namespace}` shows them"
        )
    with connect.explaining():
        body = server.get(resources.SERIES, namespace, bare)
        known = [] if body else [fields.name(one) for one in server.list(resources.SERIES, namespace)]
    if body is None:
        raise UsageError(f"no series {bare!r} in namespace {namespace}; {_advice(bare, known)}")
    return nights.read(body)


def every_series(server: Cluster, namespace: str) -> list[Body]:
    """Of a namespace or, if it is empty, of all; by name."""
    with connect.explaining():
        bodies = server.list(resources.SERIES, namespace)
    return sorted(bodies, key=lambda body: (fields.text(fields.metadata(body).get("namespace")), fields.name(body)))


def _advice(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"it has none yet: {FIRST_SERIES}"
    if similar := difflib.get_close_matches(name, known, n=3):
        return f"did you mean {', '.join(map(repr, similar))}?"
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    return f"it has {', '.join(sorted(known)[:LISTED])}{more}"
