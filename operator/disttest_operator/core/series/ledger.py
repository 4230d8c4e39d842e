"""The ledger of a series: exact totals, the last runs, and the runs that are counted but may not know it yet."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from disttest_contract.outcomes import Outcome, Verdict
from disttest_operator.core.series import history, report_retention
from disttest_operator.core.series.run_results import NOTHING, Results
from disttest_operator.core.status import size_limits

NOT_ABOUT_CODE = frozenset({Verdict.INFRA_FAILED, Verdict.CANCELLED})


def streak(before: int, verdict: str) -> int:
    """So many runs in a row passed; negative: did not."""
    if verdict in NOT_ABOUT_CODE:
        return before
    return max(before, 0) + 1 if verdict == Verdict.PASSED else min(before, 0) - 1


def pass_rate_percent(verdicts: Iterable[str]) -> int | None:
    """Rounded down, so that 100 means all. None: there is no run to tell by."""
    counted = [verdict for verdict in verdicts if verdict not in NOT_ABOUT_CODE]
    return 100 * counted.count(Verdict.PASSED) // len(counted) if counted else None


BUCKETS = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 5400, 7200, 10800, 14400, 21600)  # seconds
OTHER = "other"  # stands for all values beyond the bound

Row = Mapping[str, Any]


def observe(rows: Sequence[Row], key: str, values: Mapping[str, float], *, most: int) -> list[dict[str, Any]]:
    """Each of `values` counted in the row that has its name under `key`; beyond `most` rows they share one."""
    known = {row[key]: row for row in rows}
    for wanted, seconds in values.items():
        name = wanted if wanted in known or len(known) < most - 1 else OTHER
        known[name] = {key: name, **_observe(known.get(name, {}), seconds)}
    return [dict(row) for row in known.values()]


def _observe(row: Row, seconds: float) -> dict[str, Any]:
    """Bounds stay as the ledger has them."""
    buckets = row.get("buckets") or [{"le": bound, "count": 0} for bound in BUCKETS]
    return {
        "buckets": [{"le": one["le"], "count": one["count"] + (1 if seconds <= one["le"] else 0)} for one in buckets],
        "sum": round(row.get("sum", 0) + seconds, 3),
        "count": row.get("count", 0) + 1,
    }


PENDING = 16
PENDING_BYTES = 256 << 10  # of all entries: etcd takes objects of at most 1.5 MiB
RETRIES = 64  # reasons
SUITES = 160  # by outcome that is the 1,440 pairs which the schema allows
QUEUES = 8  # of the histogram of waits
KINDS = 16  # of verdicts and steps: more than there are

NO_STATUS: Mapping[str, Any] = MappingProxyType({})

Status = Mapping[str, Any]  # of a DistTestSeries
Entry = Mapping[str, Any]  # one element of its `pending`


class LedgerFullError(RuntimeError):
    """So many runs are counted whose own status is not written that another must wait."""


def make_entry(*, uid: str, name: str, status: Mapping[str, Any], before: Mapping[str, Any] = NO_STATUS) -> Entry:
    """What a terminal status needs to be written again, word by word, over the one that is there."""
    status = size_limits.finished(status, before)
    return {
        "uid": uid,
        "name": name,
        "time": status["completionTime"],
        "verdict": status["verdict"],
        "reason": status["reason"],
        "message": status["message"],
        "reportSha256": (status.get("report") or {}).get("sha256", ""),
        "status": dict(status),
    }


def find_entry(ledger: Status, uid: str) -> Entry | None:
    """One whose status says what it itself says: a run's verdict is not taken from an entry that somebody edited."""
    found = next((entry for entry in _list(ledger, "pending") if entry["uid"] == uid), None)
    return found if found and _is_whole(found) else None


def _is_whole(entry: Entry) -> bool:
    status = entry.get("status") or {}
    has_all = all(status.get(key) for key in ("reason", "message", "completionTime"))
    return has_all and bool(status.get("verdict") == entry["verdict"])


def fold(ledger: Status, entry: Entry, results: Results = NOTHING, *, nodes: int, keeps_reports: bool = True) -> Status:
    """Count a run. Counting it again changes nothing."""
    if find_entry(ledger, entry["uid"]):
        return ledger
    pending = _append([one for one in _list(ledger, "pending") if one["uid"] != entry["uid"]], entry)
    if any(run["uid"] == entry["uid"] for run in _list(ledger, "runs")):
        return {**ledger, "pending": pending}
    is_success = entry["verdict"] == Verdict.PASSED
    run = _run(entry, entry["status"], nodes) | (report_retention.listed(entry["status"]) if keeps_reports else {})
    runs = [*_list(ledger, "runs"), run][-report_retention.RUNS :]
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
    """Forget the entries of runs of which a live read said that they are finished or gone."""
    gone = set(uids)
    kept = [entry for entry in _list(ledger, "pending") if entry["uid"] not in gone]
    return {**ledger, "pending": kept}


def _append(pending: Sequence[Entry], entry: Entry) -> list[dict[str, Any]]:
    """An entry always fits into an empty list, so that no run waits for ever."""
    size_bytes = sum(map(size_limits.size, pending))
    if len(pending) >= PENDING or (pending and size_bytes + size_limits.size(entry) > PENDING_BYTES):
        raise LedgerFullError(
            f"{len(pending)} runs of the series, {size_bytes} bytes, wait for their status to be written"
        )
    return [*map(dict, pending), dict(entry)]


def _run(entry: Entry, status: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    run = {
        "name": entry["name"],
        "uid": entry["uid"],
        "time": entry["time"],
        "verdict": entry["verdict"],
        "reason": entry["reason"],
        "nodes": nodes,
    }
    suites = [_suite(suite) for suite in status.get("suites") or ()] or None
    optional = {
        "seconds": status.get("durationSeconds"),
        "stepSeconds": status.get("stepSeconds") or None,
        "cases": status.get("cases"),
        "suites": suites,
    }
    return run | {key: value for key, value in optional.items() if value is not None}


def _suite(suite: Mapping[str, Any]) -> dict[str, Any]:
    """Of thirty runs of up to 32 suites: zeros are left out."""
    cases = {key: count for key, count in (suite.get("cases") or {}).items() if count}
    return {key: suite[key] for key in ("name", "verdict", "seconds") if key in suite} | {"cases": cases}


def _measured(entry: Entry, results: Results, nodes: int) -> dict[str, Any]:
    """Of the last run that has it; one that measured nothing leaves what was."""
    measured: dict[str, Any] = {"madeWith": dict(results.made_with)} if results.made_with else {}
    if results.points.rows:
        rows = [{**row, "nodes": nodes} for row in results.points.rows]
        measured["bandwidth"] = {"run": entry["name"], "time": entry["time"], "points": rows, "cut": results.points.cut}
    return measured


def _add(totals: Mapping[str, Any], entry: Entry, results: Results) -> dict[str, Any]:
    status, seconds = entry["status"], entry["status"].get("durationSeconds")
    runs = {(row["verdict"], row["reason"]): row["count"] for row in _list(totals, "runs")}
    pair = (entry["verdict"], entry["reason"])
    runs[pair] = runs.get(pair, 0) + 1
    steps = status.get("stepSeconds") or {}
    durations = {entry["verdict"]: seconds} if seconds is not None else {}
    waits = {results.queue: steps["queued"] + steps["scheduled"]} if steps.keys() >= {"queued", "scheduled"} else {}
    suites = status.get("suites") or ()
    return {
        "runs": [{"verdict": verdict, "reason": reason, "count": n} for (verdict, reason), n in runs.items()],
        "cases": _add_cases(_list(totals, "cases"), suites),
        "hangs": _add_hangs(_list(totals, "hangs"), results.hangs),
        "durations": observe(_list(totals, "durations"), "verdict", durations, most=KINDS),
        "steps": observe(_list(totals, "steps"), "step", steps, most=KINDS),
        "waits": observe(_list(totals, "waits"), "queue", waits, most=QUEUES),
        "retries": _add_retries(_list(totals, "retries"), status.get("retries") or ()),
        "nodeFailures": history.add_failures(_list(totals, "nodeFailures"), status.get("suspectNodes") or ()),
    }


def _add_cases(rows: Sequence[Mapping[str, Any]], suites: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every outcome of a known suite has a row, zeros too: a counter born above 0 is invisible to increase()."""
    counts = {(row["suite"], row["outcome"]): row["count"] for row in rows}
    known = {suite for suite, _ in counts}
    for suite in suites:
        name, cases = suite["name"], suite.get("cases") or {}
        if name not in known and len(known) >= SUITES:
            continue
        known.add(name)
        for outcome in Outcome:
            counts[name, outcome.value] = counts.get((name, outcome.value), 0) + cases.get(outcome.value, 0)
    return [{"suite": suite, "outcome": outcome, "count": n} for (suite, outcome), n in counts.items()]


def _add_hangs(rows: Sequence[Mapping[str, Any]], hangs: Mapping[str, int]) -> list[dict[str, Any]]:
    """A suite that never hung has a row too, as above."""
    counts = {row["suite"]: row["count"] for row in rows}
    for suite, count in hangs.items():
        if suite in counts or len(counts) < SUITES:
            counts[suite] = counts.get(suite, 0) + count
    return [{"suite": suite, "count": count} for suite, count in counts.items()]


def _add_retries(rows: Sequence[Mapping[str, Any]], retries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts = {row["reason"]: row["count"] for row in rows}
    for retry in retries:
        reason = retry["reason"]
        if reason in counts or len(counts) < RETRIES:
            counts[reason] = counts.get(reason, 0) + retry["count"]
    return [{"reason": reason, "count": count} for reason, count in counts.items()]


def _list(mapping: Mapping[str, Any], key: str) -> list[Any]:
    return list(mapping.get(key) or ())
