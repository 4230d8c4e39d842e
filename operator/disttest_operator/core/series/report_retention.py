"""Which reports a series keeps when their runs go: those of its newest runs that have one.

A series owns no report that its ledger does not list, so that none is forgotten: the ledger lists it, then it is kept;
it is given back, then the ledger lists it no more.
"""

from collections.abc import Collection, Mapping
from typing import Any

Ledger = Mapping[str, Any]  # the status of a DistTestSeries
Run = Mapping[str, Any]  # one element of its `runs`

RUNS = 30  # that a ledger lists
FIELDS = frozenset({"report", "reportSha256"})


def listed(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a ledger says of the report of a run with this terminal status."""
    stored = status.get("report") or {}
    named = {"report": stored.get("configMap"), "reportSha256": stored.get("sha256")}
    return {key: value for key, value in named.items() if value}


def find(ledger: Ledger, uid: str) -> Run | None:
    """The run, if its report is to be kept."""
    return next((run for run in _with_reports(ledger) if run["uid"] == uid), None)


def surplus(ledger: Ledger, most: int) -> list[Run]:
    """Those whose reports are to be given back: all but the newest. Not while one is about to be kept."""
    runs, pending = _with_reports(ledger), {entry["uid"] for entry in ledger.get("pending") or ()}
    return [run for run in runs[: max(0, len(runs) - most)] if run["uid"] not in pending]


def fallen(before: Ledger, after: Ledger) -> list[Run]:
    """Runs with reports that the ledger would list no more."""
    left = {run["uid"] for run in after.get("runs") or ()}
    return [run for run in _with_reports(before) if run["uid"] not in left]


def forget(ledger: Ledger, uids: Collection[str]) -> Ledger:
    """The reports of these runs, which were given back."""
    runs = [_without_report(run) if run["uid"] in uids else run for run in ledger.get("runs") or ()]
    return {**ledger, "runs": runs} if uids else ledger


def _with_reports(ledger: Ledger) -> list[Run]:
    return [run for run in ledger.get("runs") or () if run.get("report")]


def _without_report(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key not in FIELDS}
