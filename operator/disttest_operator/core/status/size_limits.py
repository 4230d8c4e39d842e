"""Size limits of a status: details are removed in order, the least important first, and the message names them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from disttest_contract import limits

STATUS_BYTES = 64 << 10  # of a terminal status, as the API server encodes it
UNFINISHED_BYTES = 40 << 10  # between attempts: the rest is for what the next attempt adds before it ends
MESSAGE_BYTES = 2048
CUT_BYTES = 128  # of texts that are cut
LAST_BYTES = 256  # of a message, if all other trims are not enough
FEW = 8  # ranks, nodes
FEW_FAILURES = 5
NEWEST = 3  # attempts
ATTEMPT_KEYS = ("number", "job", "verdict", "reason", "charged", "startTime", "completionTime", "report")

Status = Mapping[str, Any]
Row = dict[str, Any]
Trim = Callable[[Status], dict[str, Any]]  # returns new values of some fields


def finished(status: Status, before: Status) -> dict[str, Any]:
    """Shorten a terminal status that is written over `before`. Numbers stay: the totals of a series need them."""
    return _fit(status, before, STATUS_BYTES, OF_THE_END)


def between_attempts(status: Status, before: Status) -> dict[str, Any]:
    """Shorten the status between two attempts: what later attempts depend on is removed last."""
    return _fit(status, before, UNFINISHED_BYTES, OF_ATTEMPTS)


def size(value: Mapping[str, Any]) -> int:
    """Size in bytes, at least that of the API server's encoding, which escapes `<`, `>` and `&`."""
    text = json.dumps(value)
    return len(text) + 5 * sum(map(text.count, "<>&"))


def _fit(status: Status, before: Status, limit_bytes: int, trims: Sequence[tuple[str, Trim]]) -> dict[str, Any]:
    """Apply trims one after the other until it fits; fields of `before` that they change are written too."""
    short = dict(status)
    missing: list[str] = []
    for words, trim in trims:
        if _written(short, before, missing) <= limit_bytes:
            break
        changed = trim({**before, **short})
        if any({**before, **short}.get(key) != value for key, value in changed.items()):
            short |= changed
            missing.append(words)
    return short | ({"message": _message(short, missing)} if missing else {})


def _written(short: Status, before: Status, missing: Sequence[str]) -> int:
    merged = {**before, **short, "message": _message(short, missing)}
    return size({key: value for key, value in merged.items() if value is not None and key != "progress"})


def _message(status: Status, missing: Sequence[str]) -> str:
    if not missing:
        return str(status["message"])
    words = f"(omitted because of the size limit, see the report: {', '.join(dict.fromkeys(missing))})"
    return f"{limits.cut(status['message'], MESSAGE_BYTES)} {words}"


def _each(key: str, change: Callable[[Row], Row]) -> Trim:
    """A trim that changes each row of a list."""
    return lambda status: {key: [change(dict(row)) for row in status[key]]} if status.get(key) else {}


def _both(first: Trim, second: Trim) -> Trim:
    return lambda status: first(status) | second(status)


def _cut(row: Row, key: str, limit_bytes: int = CUT_BYTES) -> Row:
    return row | {key: limits.cut(row[key], limit_bytes)} if row.get(key) else row


def _few(row: Row, *keys: str) -> Row:
    return row | {key: row[key][:FEW] for key in keys if row.get(key)}


def _without(row: Row, *keys: str) -> Row:
    return {name: value for name, value in row.items() if name not in keys}


def _attempt_without_ends(row: Row) -> Row:
    row = _cut(row, "message")
    return row | {"firstFailure": _cut(dict(row["firstFailure"]), "message")} if row.get("firstFailure") else row


def _oldest_nodes(status: Status) -> dict[str, Any]:
    """Remove the nodes of half of the attempts: a partial list of an attempt would look complete."""
    rows = [dict(row) for row in status.get("attempts") or ()]
    named = [row for row in rows if row.get("nodes")]
    for row in named[: (len(named) + 1) // 2]:
        del row["nodes"]
    return {"attempts": rows} if named else {}


def _oldest_failures(status: Status) -> dict[str, Any]:
    """Keep the newest ones: they show whether the same case failed again."""
    rows = status.get("attempts") or ()
    older, newest = rows[:-NEWEST], rows[-NEWEST:]
    return {"attempts": [*(_without(dict(row), "firstFailure") for row in older), *newest]}


def _measured_against(status: Status) -> dict[str, Any]:
    rows = status.get("bandwidth") or ()
    return {"bandwidth": [row for row in rows if row.get("thresholdBytesPerSecond")]} if rows else {}


def _last(status: Status) -> dict[str, Any]:
    return {
        "message": limits.cut(status["message"], LAST_BYTES),
        **_each("conditions", lambda row: _cut(row, "message", LAST_BYTES))(status),
    }


OF_THE_END: tuple[tuple[str, Trim], ...] = (
    ("most nodes of attempts", _each("attempts", lambda row: _few(row, "nodes"))),
    ("most ranks and nodes of failures", _each("failures", lambda row: _few(row, "ranks", "nodes"))),
    (
        "parts of messages of suites and attempts",
        _both(_each("suites", lambda row: _cut(row, "message")), _each("attempts", _attempt_without_ends)),
    ),
    ("parts of messages of failures", _each("failures", lambda row: _cut(row, "message"))),
    ("bandwidth without a threshold", _measured_against),
    (
        f"failures after the first {FEW_FAILURES}",
        lambda status: {"failures": status["failures"][:FEW_FAILURES]} if status.get("failures") else {},
    ),
    ("bandwidth", lambda status: {"bandwidth": []} if status.get("bandwidth") else {}),
    ("details of attempts", _each("attempts", lambda row: {key: row[key] for key in ATTEMPT_KEYS if key in row})),
    (
        "messages of suites, evidence against nodes",
        _both(
            _each("suites", lambda row: _without(row, "message")),
            _each("suspectNodes", lambda row: _without(row, "evidence")),
        ),
    ),
    ("failures", lambda status: {"failures": []} if status.get("failures") else {}),
    ("parts of messages", _last),
)
OF_ATTEMPTS: tuple[tuple[str, Trim], ...] = (
    ("parts of messages of attempts", _each("attempts", _attempt_without_ends)),
    ("evidence against nodes", _each("suspectNodes", lambda row: _cut(row, "evidence"))),
    *([("nodes of attempts", _oldest_nodes)] * 4),  # half of the attempts each time
    ("parts of messages", _last),
    ("evidence against nodes", _each("suspectNodes", lambda row: _without(row, "evidence"))),
    ("first failures of attempts", _oldest_failures),
)
