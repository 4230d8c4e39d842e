"""Retention of reports: a series keeps those of its newest runs after the runs are deleted.

No report is lost track of: the ledger lists it before the series owns it, and until the series has released it.
"""

from collections.abc import Collection, Mapping
from typing import Any

Ledger = Mapping[str, Any]  # the status of a DistTestSeries
Run = Mapping[str, Any]  # one element of its `runs`

RUNS = 30  # that a ledger lists
FIELDS = frozenset({"report", "reportSha256"})


def listed(status: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run in the ledger that name its report."""
    stored = status.get("report") or {}
    named = {"report": stored.get("configMap"), "reportSha256": stored.get("sha256")}
    return {key: value for key, value in named.items() if value}


def find(ledger: Ledger, uid: str) -> Run | None:
    """The run if it has a report to keep."""
    return next((run for run in _with_reports(ledger) if run["uid"] == uid), None)


def surplus(ledger: Ledger, most: int) -> list[Run]:
    """Runs whose reports are to be released: all but the newest `most`, and none that is still pending."""
    runs, pending = _with_reports(ledger), {entry["uid"] for entry in ledger.get("pending") or ()}
    return [run for run in runs[: max(0, len(runs) - most)] if run["uid"] not in pending]


def fallen(before: Ledger, after: Ledger) -> list[Run]:
    """Runs with reports that the new ledger no longer lists."""
    left = {run["uid"] for run in after.get("runs") or ()}
    return [run for run in _with_reports(before) if run["uid"] not in left]


def forget(ledger: Ledger, uids: Collection[str]) -> Ledger:
    """Remove the reports of these runs, which were released, from the ledger."""
    runs = [_without_report(run) if run["uid"] in uids else run for run in ledger.get("runs") or ()]
    return {**ledger, "runs": runs} if uids else ledger


def _with_reports(ledger: Ledger) -> list[Run]:
    return [run for run in ledger.get("runs") or () if run.get("report")]


def _without_report(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key not in FIELDS}
