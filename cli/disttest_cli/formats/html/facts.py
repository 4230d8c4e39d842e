"""Facts about the run for a page: the environment of nodes, earlier attempts and suspect nodes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from disttest_cli import fields
from disttest_cli.formats.subject import Subject
from disttest_contract import limits
from disttest_contract.results.preflight import UNLIMITED, NodeFacts
from disttest_contract.results.report import Report
from disttest_contract.text import formatting
from disttest_contract.text.formatting import show_bytes

COLUMNS = 12
NAMED = 4  # nodes in the header of a column
UNKNOWN = "—"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """`odd` are the columns that differ from most nodes."""

    name: str
    values: tuple[str, ...]
    odd: frozenset[int]

    @property
    def differs(self) -> bool:
        return bool(self.odd)


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
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in report.preflight:
        groups.setdefault(_values(one, names), []).append(one.node_name or "a node without name")
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    shown = ordered[:COLUMNS]
    labels = (*(label for label, _ in FACTS), *names)
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


def _limit(size: int) -> str:
    return "unlimited" if size == UNLIMITED else show_bytes(size) if size else UNKNOWN


def _gpus(one: NodeFacts) -> str:
    kinds = Counter(one.gpus)
    shared = " (shared by ranks)" if one.shares_gpus else ""
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(8)) + shared if kinds else UNKNOWN


def _about(size: int) -> str:
    """Rounded, since equal nodes differ by some pages."""
    return f"{size / (1 << 30):,.0f} GiB" if size > 0 else UNKNOWN


FACTS: tuple[tuple[str, Callable[[NodeFacts], str]], ...] = (
    ("GPUs", _gpus),
    ("driver", lambda one: one.driver or UNKNOWN),
    ("CUDA of the driver", lambda one: one.cuda_driver or UNKNOWN),
    ("CUDA error", lambda one: limits.cut(one.cuda_error, 400) or UNKNOWN),
    ("/dev/shm", lambda one: _limit(one.shm_bytes)),  # noqa: S108  # a name in a table
    ("locked memory", lambda one: _limit(one.memlock_bytes)),
    ("processors", lambda one: str(one.cpus) if one.cpus else UNKNOWN),
    ("memory", lambda one: _about(one.memory_bytes)),
    ("kernel", lambda one: one.kernel or UNKNOWN),
)


def _values(one: NodeFacts, versions: Sequence[str]) -> tuple[str, ...]:
    return (*(read(one) for _, read in FACTS), *(one.versions.get(name, UNKNOWN) for name in versions))


def _clocks(preflight: Sequence[NodeFacts]) -> str:
    found = [
        (abs(one.clock_offset_seconds), one.node_name) for one in preflight if one.clock_offset_seconds is not None
    ]
    if not found:
        return ""
    furthest, node = max(found)
    return f"Clocks are at most {furthest * 1000:.1f} ms from the leader's ({node})."


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
            number=fields.text(one.get("number")),
            verdict=fields.text(one.get("verdict")),
            reason=fields.text(one.get("reason")),
            message=fields.text(one.get("message")),
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
            name=fields.text(one.get("name")),
            reason=fields.text(one.get("reason")),
            evidence=fields.text(one.get("evidence")),
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
