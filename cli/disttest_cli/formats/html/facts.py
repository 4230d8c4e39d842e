"""What the nodes were: one column for nodes that are alike, and which facts differ. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from disttest_cli.formats.subject import Subject
from disttest_contract import limits
from disttest_contract.results.preflight import UNLIMITED, NodeFacts
from disttest_contract.results.report import Report
from disttest_contract.text.formatting import show_bytes

COLUMNS = 12
NAMED = 4  # nodes, above a column
UNSAID = "—"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """`odd` are the columns that are not as most nodes are."""

    name: str
    values: tuple[str, ...]
    odd: frozenset[int]

    @property
    def differs(self) -> bool:
        return bool(self.odd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    columns: tuple[tuple[str, int], ...]  # names of nodes, and how many these are
    facts: tuple[Fact, ...]
    left_out: int  # columns
    clocks: str  # how far clocks are apart


def environment(report: Report) -> Environment | None:
    if not report.preflight:
        return None
    names = tuple(dict.fromkeys(name for one in report.preflight for name in one.versions))
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in report.preflight:
        groups.setdefault(_values(one, names), []).append(one.node_name or "a node without name")
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    shown = ordered[:COLUMNS]
    labels = (*(label for label, _ in FACTS), *names)
    rows = zip(labels, zip(*(values for values, _ in shown), strict=True), strict=True)
    weights = [len(nodes) for _, nodes in shown]
    return Environment(
        columns=tuple((_names(nodes), len(nodes)) for _, nodes in shown),
        facts=tuple(Fact(name=label, values=values, odd=odd(values, weights)) for label, values in rows),
        left_out=len(ordered) - len(shown),
        clocks=_clocks(report.preflight),
    )


def odd(values: Sequence[str], weights: Sequence[int]) -> frozenset[int]:
    """Columns that differ from what most nodes have; all of them where there is no majority."""
    votes: Counter[str] = Counter()
    for value, weight in zip(values, weights, strict=True):
        votes[value] += weight
    if len(votes) <= 1:
        return frozenset()
    usual, count = votes.most_common(1)[0]
    if count * 2 <= votes.total():
        return frozenset(range(len(values)))
    return frozenset(place for place, value in enumerate(values) if value != usual)


def _limit(size: int) -> str:
    return "unlimited" if size == UNLIMITED else show_bytes(size) if size else UNSAID


def _gpus(one: NodeFacts) -> str:
    kinds = Counter(one.gpus)
    shared = " (shared by ranks)" if one.shares_gpus else ""
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(8)) + shared if kinds else UNSAID


def _about(size: int) -> str:
    """Nodes of one kind differ by some pages."""
    return f"{size / (1 << 30):,.0f} GiB" if size > 0 else UNSAID


FACTS: tuple[tuple[str, Callable[[NodeFacts], str]], ...] = (
    ("GPUs", _gpus),
    ("driver", lambda one: one.driver or UNSAID),
    ("CUDA of the driver", lambda one: one.cuda_driver or UNSAID),
    ("CUDA error", lambda one: limits.cut(one.cuda_error, 400) or UNSAID),
    ("/dev/shm", lambda one: _limit(one.shm_bytes)),  # noqa: S108  # a name in a table
    ("locked memory", lambda one: _limit(one.memlock_bytes)),
    ("processors", lambda one: str(one.cpus) if one.cpus else UNSAID),
    ("memory", lambda one: _about(one.memory_bytes)),
    ("kernel", lambda one: one.kernel or UNSAID),
)


def _values(one: NodeFacts, versions: Sequence[str]) -> tuple[str, ...]:
    return (*(read(one) for _, read in FACTS), *(one.versions.get(name, UNSAID) for name in versions))


def _names(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return f"{', '.join(nodes[:NAMED])}{more}"


def _clocks(preflight: Sequence[NodeFacts]) -> str:
    told = [(abs(one.clock_offset_seconds), one.node_name) for one in preflight if one.clock_offset_seconds is not None]
    if not told:
        return ""
    furthest, node = max(told)
    return f"Clocks are at most {furthest * 1000:.1f} ms from the leader's ({node})."


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    number: str
    verdict: str
    reason: str
    message: str
    nodes: str
    first_failure: str
    began: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    name: str
    reason: str
    evidence: str
    confirmed: bool


def attempts(subject: Subject) -> tuple[Attempt, ...]:
    """Those before the report's own."""
    return tuple(
        Attempt(
            number=_text(one, "number"),
            verdict=_text(one, "verdict"),
            reason=_text(one, "reason"),
            message=_text(one, "message"),
            nodes=", ".join(map(str, one.get("nodes") or ())),
            first_failure=_first_failure(one.get("firstFailure")),
            began=_text(one, "startTime"),
        )
        for one in _entries(subject.status.get("attempts"))
        if one.get("number") != subject.report.attempt
    )


def suspects(subject: Subject) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(
            name=_text(one, "name"),
            reason=_text(one, "reason"),
            evidence=_text(one, "evidence"),
            confirmed=one.get("confirmed") is True,
        )
        for one in _entries(subject.status.get("suspectNodes"))
    )


def _first_failure(found: object) -> str:
    """Rank 12 on gpu-node-09, SIGABRT: what it said."""
    if not isinstance(found, Mapping):
        return ""
    where = " ".join(
        f"{word} {found[key]}" for word, key in (("rank", "rank"), ("on", "node")) if found.get(key) not in (None, "")
    )
    ended = ", ".join(part for part in (where, _text(found, "signal")) if part)
    return ": ".join(part for part in (ended, _text(found, "message")) if part)


def _entries(value: object) -> Iterator[Mapping[str, Any]]:
    for one in value if isinstance(value, (list, tuple)) else ():
        if isinstance(one, Mapping):
            yield one


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return "" if value is None else str(value)
