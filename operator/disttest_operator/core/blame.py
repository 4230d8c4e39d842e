"""Nodes that runs of a series blamed, until a later run passed on them, and for a while after that."""

from collections.abc import Mapping
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import Verdict
from disttest_operator.core.history import count_cut

LISTED = 50
NODE_BYTES = 253
REASON_BYTES = 64

Row = Mapping[str, Any]


def fold(ledger: Mapping[str, Any], entry: Mapping[str, Any], nodes: frozenset[str], *, oldest: str) -> dict[str, Any]:
    """`nodes` are those of the run, `oldest` is the time of the oldest run that the ledger keeps."""
    rows: dict[str, Row] = {row["name"]: row for row in ledger.get("blamedNodes") or ()}
    suspects = {limits.cut(one["name"], NODE_BYTES): one for one in entry["status"].get("suspectNodes") or ()}
    for name, suspect in suspects.items():
        rows[name] = _blame(rows.get(name, {}), name, suspect, entry)
    if entry["verdict"] == Verdict.PASSED:
        # A run that passed at last does not clear the nodes that it blames itself.
        for name in nodes & (rows.keys() - suspects.keys()):
            rows[name] = {"clearedTime": entry["time"], **rows[name]}
    kept = [row for row in rows.values() if "clearedTime" not in row or row["lastTime"] >= oldest]
    return {
        "blamedNodes": [dict(row) for row in _worst_first(kept)[:LISTED]],
        "blamedCut": count_cut(ledger.get("blamedCut", 0), listed=LISTED, found=len(kept)),
    }


def _blame(row: Row, name: str, suspect: Mapping[str, Any], entry: Mapping[str, Any]) -> Row:
    """Blamed anew a node is no longer cleared, and what was confirmed once has to be confirmed again."""
    was_confirmed = row.get("confirmed", False) and "clearedTime" not in row
    return {
        "name": name,
        "reason": limits.cut(suspect.get("reason", ""), REASON_BYTES),
        "times": row.get("times", 0) + 1,
        "confirmed": was_confirmed or bool(suspect.get("confirmed")),
        "lastTime": entry["time"],
        "lastRun": entry["name"],
    }


def _worst_first(rows: list[Row]) -> list[Row]:
    """Those that are not cleared, of these the confirmed ones, of these the latest."""
    by_time = sorted(sorted(rows, key=lambda row: row["name"]), key=lambda row: row["lastTime"], reverse=True)
    return sorted(by_time, key=lambda row: ("clearedTime" in row, not row["confirmed"]))
