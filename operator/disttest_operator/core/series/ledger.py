"""The ledger of a series, the status of a DistTestSeries: exact totals, the last runs, histories, and pending runs.

A run is counted before its own status is written; until that is confirmed its entry is pending. The series keeps the
reports of its newest runs after the runs are deleted: the ledger lists a report before the series owns it, and until
the series has released it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from disttest_contract.outcomes import Outcome, Verdict
from disttest_operator.core.series import history
from disttest_operator.core.series.run_results import NOTHING, Results
from disttest_operator.core.status import size_limits

NOT_ABOUT_CODE = frozenset({Verdict.INFRA_FAILED, Verdict.CANCELLED})


def streak(before: int, verdict: str) -> int:
    """Number of runs in a row that passed; negative if they did not pass."""
    if verdict in NOT_ABOUT_CODE:
        return before
    return max(before, 0) + 1 if verdict == Verdict.PASSED else min(before, 0) - 1


def pass_rate_percent(verdicts: Iterable[str]) -> int | None:
    """Rounded down, so that 100 means all; None without a run that counts."""
    counted = [verdict for verdict in verdicts if verdict not in NOT_ABOUT_CODE]
    return 100 * counted.count(Verdict.PASSED) // len(counted) if counted else None


BUCKETS = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 5400, 7200, 10800, 14400, 21600)  # seconds
OTHER = "other"  # the row of all values beyond the bound

Row = Mapping[str, Any]


def observe(rows: Sequence[Row], key: str, values: Mapping[str, float], *, most: int) -> list[dict[str, Any]]:
    """Count seconds in the histogram whose `key` is their name; names beyond `most` rows share one row."""
    known = {row[key]: row for row in rows}
    for wanted, seconds in values.items():
        name = wanted if wanted in known or len(known) < most - 1 else OTHER
        known[name] = {key: name, **_observe(known.get(name, {}), seconds)}
    return [dict(row) for row in known.values()]


def _observe(row: Row, seconds: float) -> dict[str, Any]:
    buckets = row.get("buckets") or [{"le": bound, "count": 0} for bound in BUCKETS]
    return {
        "buckets": [{"le": one["le"], "count": one["count"] + (1 if seconds <= one["le"] else 0)} for one in buckets],
        "sum": round(row.get("sum", 0) + seconds, 3),
        "count": row.get("count", 0) + 1,
    }


PENDING = 16
PENDING_BYTES = 256 << 10  # of all entries: etcd stores at most 1.5 MiB per object
RETRIES = 64  # reasons
SUITES = 160  # times the outcomes that is 1,440 rows, the schema's limit
QUEUES = 8  # rows of waits
KINDS = 16  # rows of verdicts and steps: more than there are
RUNS = 30  # that are listed
REPORT_FIELDS = frozenset({"report", "reportSha256"})  # of a run that is listed

NO_STATUS: Mapping[str, Any] = MappingProxyType({})

Status = Mapping[str, Any]  # of a DistTestSeries
Entry = Mapping[str, Any]  # one element of its `pending`


class LedgerFullError(RuntimeError):
    """Too many runs are counted whose status is not written yet, so that another one must wait."""


def make_entry(*, uid: str, name: str, status: Mapping[str, Any], before: Mapping[str, Any] = NO_STATUS) -> Entry:
    """The pending entry of a run: its terminal status, shortened to be written over the status `before`."""
    status = size_limits.finished(status, before)
    return {
        "uid": uid,
        "name": name,
        "time": status["completionTime"],
        **{key: status[key] for key in ("verdict", "reason", "message")},
        "reportSha256": (status.get("report") or {}).get("sha256", ""),
        "status": dict(status),
    }


def find_entry(ledger: Status, uid: str) -> Entry | None:
    """The run's pending entry, or None if it is missing or was edited so that it contradicts its own status."""
    found = next((entry for entry in _list(ledger, "pending") if entry["uid"] == uid), None)
    return found if found and _is_whole(found) else None


def _is_whole(entry: Entry) -> bool:
    status = entry.get("status") or {}
    has_all = all(status.get(key) for key in ("reason", "message", "completionTime"))
    return has_all and bool(status.get("verdict") == entry["verdict"])


def fold(ledger: Status, entry: Entry, results: Results = NOTHING, *, nodes: int, keeps_reports: bool = True) -> Status:
    """Count a run; counting it again changes nothing. Raises LedgerFullError."""
    if find_entry(ledger, entry["uid"]):
        return ledger
    pending = _append([one for one in _list(ledger, "pending") if one["uid"] != entry["uid"]], entry)
    if any(run["uid"] == entry["uid"] for run in _list(ledger, "runs")):
        return {**ledger, "pending": pending}
    is_success = entry["verdict"] == Verdict.PASSED
    run = _run(entry, entry["status"], nodes, has_report=keeps_reports)
    runs = [*_list(ledger, "runs"), run][-RUNS:]
    return {
        **ledger,
        "runCount": ledger.get("runCount", 0) + 1,
        "lastVerdict": entry["verdict"],
        "lastCompletionTime": entry["time"],
        **({"lastSuccessTime": entry["time"]} if is_success else {}),
        "passRatePercent": pass_rate_percent(run["verdict"] for run in runs),
        "streak": streak(ledger.get("streak", 0), entry["verdict"]),
        "totals": _add(ledger.get("totals") or {}, entry, results),
        "runs": runs,
        **history.fold(ledger, results, time=entry["time"]),
        **history.fold_blame(ledger, entry, results.nodes, oldest=runs[0].get("time", "")),
        **history.fold_coverage(ledger, results.nodes if results.has_cases else frozenset(), time=entry["time"]),
        **_measured(entry, results, nodes),
        "pending": pending,
    }


def settle(ledger: Status, uids: Iterable[str]) -> Status:
    """Remove the pending entries of runs that are finished or deleted according to the API server."""
    gone = set(uids)
    kept = [entry for entry in _list(ledger, "pending") if entry["uid"] not in gone]
    return {**ledger, "pending": kept}


def find_report(ledger: Status, uid: str) -> Row | None:
    """The run if it has a report to keep."""
    return next((run for run in _with_reports(ledger) if run["uid"] == uid), None)


def surplus_reports(ledger: Status, most: int) -> list[Row]:
    """Runs whose reports are to be released: all but the newest `most`, and none that is still pending."""
    runs, pending = _with_reports(ledger), {entry["uid"] for entry in _list(ledger, "pending")}
    return [run for run in runs[: max(0, len(runs) - most)] if run["uid"] not in pending]


def unlisted_reports(before: Status, after: Status) -> list[Row]:
    """Runs with reports that the new ledger no longer lists."""
    left = {run["uid"] for run in _list(after, "runs")}
    return [run for run in _with_reports(before) if run["uid"] not in left]


def forget_reports(ledger: Status, uids: Collection[str]) -> Status:
    """Remove the reports of these runs, which were released, from the ledger."""
    runs = [
        {key: value for key, value in run.items() if run["uid"] not in uids or key not in REPORT_FIELDS}
        for run in _list(ledger, "runs")
    ]
    return {**ledger, "runs": runs} if uids else ledger


def _with_reports(ledger: Status) -> list[Row]:
    return [run for run in _list(ledger, "runs") if run.get("report")]


def _append(pending: Sequence[Entry], entry: Entry) -> list[dict[str, Any]]:
    """An entry always fits into an empty list, so that no run waits forever. Raises LedgerFullError."""
    size_bytes = sum(map(size_limits.size, pending))
    if len(pending) >= PENDING or (pending and size_bytes + size_limits.size(entry) > PENDING_BYTES):
        raise LedgerFullError(
            f"the statuses of {len(pending)} runs of the series ({size_bytes} bytes) have not been written yet"
        )
    return [*map(dict, pending), dict(entry)]


def _run(entry: Entry, status: Mapping[str, Any], nodes: int, *, has_report: bool) -> dict[str, Any]:
    stored = (status.get("report") or {}) if has_report else {}
    run = {key: entry[key] for key in ("name", "uid", "time", "verdict", "reason")} | {"nodes": nodes}
    optional = {
        "seconds": status.get("durationSeconds"),
        "stepSeconds": status.get("stepSeconds") or None,
        "cases": status.get("cases"),
        "suites": [_suite(suite) for suite in status.get("suites") or ()] or None,
        "report": stored.get("configMap") or None,
        "reportSha256": stored.get("sha256") or None,
    }
    return run | {key: value for key, value in optional.items() if value is not None}


def _suite(suite: Mapping[str, Any]) -> dict[str, Any]:
    """Without zeros, since a ledger has thirty runs of up to 32 suites."""
    cases = {key: count for key, count in (suite.get("cases") or {}).items() if count}
    return {key: suite[key] for key in ("name", "verdict", "seconds") if key in suite} | {"cases": cases}


def _measured(entry: Entry, results: Results, nodes: int) -> dict[str, Any]:
    """Versions and bandwidth of this run; without measurements the ledger keeps those of an earlier run."""
    measured: dict[str, Any] = {"environment": dict(results.environment)} if results.environment else {}
    if results.points.rows:
        rows = [{**row, "nodes": nodes} for row in results.points.rows]
        measured["bandwidth"] = {
            "run": entry["name"],
            "time": entry["time"],
            "points": rows,
            "omitted": results.points.cut,
        }
    return measured


def _add(totals: Mapping[str, Any], entry: Entry, results: Results) -> dict[str, Any]:
    status, seconds = entry["status"], entry["status"].get("durationSeconds")
    steps = status.get("stepSeconds") or {}
    durations = {entry["verdict"]: seconds} if seconds is not None else {}
    waits = {results.queue: steps["queued"] + steps["scheduled"]} if steps.keys() >= {"queued", "scheduled"} else {}
    retries = [((row["reason"],), row["count"]) for row in status.get("retries") or ()]
    # A suite that never hung has a row too: increase() misses a counter that starts above 0.
    hangs = [((suite,), count) for suite, count in results.hangs.items()]
    run = ((entry["verdict"], entry["reason"]), 1)
    return {
        "runs": history.add_counts(_list(totals, "runs"), ("verdict", "reason"), [run]),
        "cases": _add_cases(_list(totals, "cases"), status.get("suites") or ()),
        "hangs": history.add_counts(_list(totals, "hangs"), ("suite",), hangs, most=SUITES),
        "durations": observe(_list(totals, "durations"), "verdict", durations, most=KINDS),
        "steps": observe(_list(totals, "steps"), "step", steps, most=KINDS),
        "waits": observe(_list(totals, "waits"), "queue", waits, most=QUEUES),
        "retries": history.add_counts(_list(totals, "retries"), ("reason",), retries, most=RETRIES),
        "nodeFailures": history.add_failures(_list(totals, "nodeFailures"), status.get("suspectNodes") or ()),
    }


def _add_cases(rows: Sequence[Mapping[str, Any]], suites: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every outcome of a known suite has a row, zeros too, for the same reason."""
    known = {row["suite"] for row in rows}
    added: list[tuple[tuple[str, ...], int]] = []
    for suite in suites:
        name, cases = suite["name"], suite.get("cases") or {}
        if name in known or len(known) < SUITES:
            known.add(name)
            added += [((name, outcome.value), cases.get(outcome.value, 0)) for outcome in Outcome]
    return history.add_counts(rows, ("suite", "outcome"), added)


def _list(mapping: Mapping[str, Any], key: str) -> list[Any]:
    return list(mapping.get(key) or ())
