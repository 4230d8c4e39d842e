"""Nodes that runs blame, over all series."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric

from disttest_operator.items import Series
from disttest_operator.metrics import families, sampling

LISTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """(node, reason, confirmed) and (node, reason, runs that were sure); `cut` suspects are missing."""

    rows: tuple[tuple[str, str, str], ...] = ()
    failures: tuple[tuple[str, str, int], ...] = ()
    cut: int = 0


def suspects(ledgers: Iterable[Series]) -> Suspects:
    """Blamed by several series a node has the reason of the latest blame, and is confirmed if one was sure."""
    latest: dict[str, Mapping[str, Any]] = {}
    confirmed: set[str] = set()
    failures: Counter[tuple[str, str]] = Counter()
    for series in ledgers:
        for row in (series.status.get("totals") or {}).get("nodeFailures") or ():
            failures[row["node"], row["reason"]] += row["count"]
        for row in series.status.get("blamedNodes") or ():
            if "clearedTime" in row:
                continue
            if row["confirmed"]:
                confirmed.add(row["name"])
            if row["name"] not in latest or row["lastTime"] > latest[row["name"]]["lastTime"]:
                latest[row["name"]] = row
    names = sorted(latest, key=lambda name: (name not in confirmed, name))
    told = tuple(
        (name, latest[name].get("reason", ""), "true" if name in confirmed else "false") for name in names[:LISTED]
    )
    counts = tuple((node, reason, count) for (node, reason), count in sorted(failures.items()))
    return Suspects(rows=told, failures=counts, cut=max(0, len(names) - LISTED))


def of(found: Suspects) -> Iterator[Metric]:
    yield sampling.rows(families.NODE_SUSPECT, (), ((labels, 1) for labels in found.rows))
    failures = (((node, reason), count) for node, reason, count in found.failures)
    yield sampling.rows(families.NODE_FAILURES, (), failures)
