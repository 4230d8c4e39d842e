"""The table of `list`: the columns of `kubectl get dt`, and progress."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from disttest_cli import fields
from disttest_cli.kube.client import Body
from disttest_cli.views import terminal
from disttest_cli.views.terminal import Line
from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.text import formatting

COLUMNS = ("NAME", "SERIES", "VERDICT", "PHASE", "PROGRESS", "NODES", "GPUS", "PASSED", "FAILED", "DURATION", "AGE")
WIDE = ("REASON", "ATTEMPTS", "CURRENT", "REPORT")
LEGEND = (
    "PROGRESS: finished cases, of those collected. "
    "FAILED: failed, errored, crashed or hung cases outside of quarantine."
)
NAMESPACE = "NAMESPACE"
BEGINNING = datetime.fromtimestamp(0, UTC)
CURRENT_CHARACTERS = 80


def newest_first(bodies: Iterable[Body]) -> list[Body]:
    by_name = sorted(bodies, key=lambda body: (fields.namespace(body), fields.name(body)))
    return sorted(by_name, key=_created, reverse=True)


def table(bodies: Sequence[Body], *, now: datetime, wide: bool, namespaces: bool) -> list[Line]:
    head = (*((NAMESPACE,) if namespaces else ()), *COLUMNS, *(WIDE if wide else ()))
    rows = [_row(body, now=now, wide=wide, namespaces=namespaces) for body in bodies]
    return terminal.table([head, *rows])


def counts(status: Mapping[str, Any]) -> Counts:
    found = status.get("cases") or fields.mapping(status.get("progress")).get("cases")
    return Counts.from_json(fields.mapping(found))


def progress(status: Mapping[str, Any]) -> str:
    if status.get("verdict"):
        final = counts(status)
        return f"{final.total - final[Outcome.NOT_RUN]}/{final.total}" if final.total else ""
    current = fields.mapping(status.get("progress"))
    total = fields.count(current.get("casesTotal"))
    return f"{fields.count(current.get('casesDone'))}/{total}" if total else ""


def duration_seconds(status: Mapping[str, Any], now: datetime) -> float | None:
    """Seconds from start to verdict, or until now."""
    if status.get("verdict"):
        return fields.number(status.get("durationSeconds"))
    started = fields.moment(status.get("startTime"))
    return max(0.0, (now - started).total_seconds()) if started else None


def _row(body: Body, *, now: datetime, wide: bool, namespaces: bool) -> list[str | Line]:
    metadata, spec, status = fields.metadata(body), fields.spec(body), fields.status(body)
    found = counts(status)
    row: list[str | Line] = [fields.namespace(body)] if namespaces else []
    row += [
        fields.name(body),
        fields.text(status.get("series") or spec.get("series")),
        terminal.styled(fields.text(status.get("verdict"))),
        fields.text(status.get("phase")),
        progress(status),
        fields.text(spec.get("nodes")),
        fields.text(status.get("gpus")),
        str(found[Outcome.PASSED]) if found.total else "",
        terminal.line((str(found.red), terminal.BROKEN if found.red else "")) if found.total else "",
        formatting.show_duration(duration_seconds(status, now)),
        formatting.show_age(fields.moment(metadata.get("creationTimestamp")), now),
    ]
    return row + (_wide(status) if wide else [])


def _wide(status: Mapping[str, Any]) -> list[str | Line]:
    current = fields.text(fields.mapping(status.get("progress")).get("currentCase"))
    is_over = bool(status.get("verdict"))
    return [
        fields.text(status.get("reason")),
        fields.text(status.get("attempt")),
        "" if is_over else current[-CURRENT_CHARACTERS:],
        fields.text(fields.mapping(status.get("report")).get("configMap")),
    ]


def _created(body: Body) -> datetime:
    return fields.moment(fields.metadata(body).get("creationTimestamp")) or BEGINNING
