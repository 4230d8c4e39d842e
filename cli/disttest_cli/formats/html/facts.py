"""Facts about the run for a page: the environment of nodes, earlier attempts and suspect nodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from disttest_cli import fields
from disttest_cli.formats import values
from disttest_cli.formats.subject import Subject
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import Report
from disttest_contract.text import formatting

COLUMNS = 12
NAMED = 4  # nodes in the header of a column
UNKNOWN = "—"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """`odd` are the columns that differ from most nodes."""

    name: str
    values: tuple[str, ...]
    odd: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    columns: tuple[tuple[str, int], ...]  # names and number of nodes with equal facts
    facts: tuple[Fact, ...]
    left_out: int  # number of columns that are omitted
    clocks: str  # a sentence about clock offsets


def environment(report: Report) -> Environment | None:
    if not report.preflight:
        return None
    names = tuple(dict.fromkeys(name for one in report.preflight for name in one.versions))
    groups = values.grouped((one.node_name or "unnamed node", _values(one, names)) for one in report.preflight)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    shown = ordered[:COLUMNS]
    labels = (*values.NODE_FACTS, *names)
    rows = zip(labels, zip(*(column for column, _ in shown), strict=True), strict=True)
    weights = [len(nodes) for _, nodes in shown]
    return Environment(
        columns=tuple((formatting.listed(nodes, NAMED), len(nodes)) for _, nodes in shown),
        facts=tuple(Fact(name=label, values=row, odd=odd(row, weights)) for label, row in rows),
        left_out=len(ordered) - len(shown),
        clocks=_clocks(report.preflight),
    )


def odd(row: Sequence[str], weights: Sequence[int]) -> frozenset[int]:
    """Columns that differ from the majority of nodes; all of them if there is no majority."""
    votes: Counter[str] = Counter()
    for value, weight in zip(row, weights, strict=True):
        votes[value] += weight
    if len(votes) <= 1:
        return frozenset()
    usual, count = votes.most_common(1)[0]
    if count * 2 <= votes.total():
        return frozenset(range(len(row)))
    return frozenset(place for place, value in enumerate(row) if value != usual)


def _values(one: NodeFacts, versions: Sequence[str]) -> tuple[str, ...]:
    return (
        *(read(one) or UNKNOWN for read in values.NODE_FACTS.values()),
        *(one.versions.get(name, UNKNOWN) for name in versions),
    )


def _clocks(preflight: Sequence[NodeFacts]) -> str:
    offsets = ((one.clock_offset_seconds, one.node_name) for one in preflight)
    furthest, node = max(((abs(offset), name) for offset, name in offsets if offset is not None), default=(None, ""))
    if furthest is None:
        return ""
    return f"The largest clock offset from the leader is {furthest * 1000:.1f} ms ({node})."


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    number: str
    verdict: str
    reason: str
    message: str
    nodes: str
    first_failure: str
    start: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    name: str
    reason: str
    evidence: str
    confirmed: bool


def attempts(subject: Subject) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            **{key: fields.text(one.get(key)) for key in ("number", "verdict", "reason", "message")},
            nodes=", ".join(map(str, one.get("nodes") or ())),
            first_failure=_first_failure(one.get("firstFailure")),
            start=fields.text(one.get("startTime")),
        )
        for one in fields.rows(subject.status.get("attempts"))
        if one.get("number") != subject.report.attempt
    )


def suspects(subject: Subject) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(
            **{key: fields.text(one.get(key)) for key in ("name", "reason", "evidence")},
            confirmed=one.get("confirmed") is True,
        )
        for one in fields.rows(subject.status.get("suspectNodes"))
    )


def _first_failure(found: object) -> str:
    """`rank 12 on gpu-node-09, SIGABRT: message`."""
    if not isinstance(found, Mapping):
        return ""
    where = " ".join(
        f"{word} {found[key]}" for word, key in (("rank", "rank"), ("on", "node")) if found.get(key) not in (None, "")
    )
    ended = ", ".join(part for part in (where, fields.text(found.get("signal"))) if part)
    return ": ".join(part for part in (ended, fields.text(found.get("message"))) if part)
