"""Which nodes a series has tested, and when; and on which of them it was sure of a fault."""

from collections.abc import Mapping, Sequence
from typing import Any

from disttest_contract import limits
from disttest_operator.core.blame import NODE_BYTES, REASON_BYTES

LISTED = 512  # nodes; a run has at most as many
FAILURES = 100  # pairs of node and reason

Row = Mapping[str, Any]


def fold(ledger: Mapping[str, Any], nodes: frozenset[str], *, time: str) -> dict[str, Any]:
    """The nodes that were tested last stay; one that no run has used for long goes when 512 others need its place."""
    if not nodes:
        return {}
    known = {row["name"]: row["time"] for row in ledger.get("nodes") or ()}
    known |= {limits.cut(name, NODE_BYTES): time for name in nodes}
    rows = sorted(({"name": name, "time": at} for name, at in known.items()), key=lambda row: row["name"])
    newest = sorted(rows, key=lambda row: row["time"], reverse=True)[:LISTED]
    return {"nodes": newest, "nodesCut": max(0, len(rows) - LISTED)}


def add_failures(rows: Sequence[Row], suspects: Sequence[Row]) -> list[dict[str, Any]]:
    """Only those that the run confirmed."""
    counts = {(row["node"], row["reason"]): row["count"] for row in rows}
    for suspect in suspects:
        node, reason = limits.cut(suspect["name"], NODE_BYTES), limits.cut(suspect.get("reason", ""), REASON_BYTES)
        if suspect.get("confirmed") and ((node, reason) in counts or len(counts) < FAILURES):
            counts[node, reason] = counts.get((node, reason), 0) + 1
    return [{"node": node, "reason": reason, "count": count} for (node, reason), count in counts.items()]
