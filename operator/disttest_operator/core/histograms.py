"""Histograms that a ledger keeps: exact, cumulative, one for each value of a key such as the verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

BUCKETS = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 5400, 7200, 10800, 14400, 21600)  # seconds
OTHER = "other"  # stands for all values beyond the bound

Row = Mapping[str, Any]


def observe(rows: Sequence[Row], key: str, values: Mapping[str, float], *, most: int) -> list[dict[str, Any]]:
    """Each of `values` counted in the row that has its name under `key`; beyond `most` rows they share one."""
    known = {row[key]: row for row in rows}
    for wanted, seconds in values.items():
        name = wanted if wanted in known or len(known) < most - 1 else OTHER
        known[name] = {key: name, **_add(known.get(name, {}), seconds)}
    return [dict(row) for row in known.values()]


def _add(row: Row, seconds: float) -> dict[str, Any]:
    """Bounds stay as the ledger has them."""
    buckets = row.get("buckets") or [{"le": bound, "count": 0} for bound in BUCKETS]
    return {
        "buckets": [{"le": one["le"], "count": one["count"] + (1 if seconds <= one["le"] else 0)} for one in buckets],
        "sum": round(row.get("sum", 0) + seconds, 3),
        "count": row.get("count", 0) + 1,
    }
