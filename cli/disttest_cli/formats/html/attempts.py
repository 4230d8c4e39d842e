"""What a DistTest's status says beyond the report: gangs before this one, suspect nodes. Pure, and forgiving."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from disttest_cli.formats.subject import Subject


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
