"""A status that says too much: what goes, the least telling first, and that it is said."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from disttest_contract import limits

STATUS_BYTES = 64 << 10  # of a terminal status, as the API server spells it
# Of one that goes on, right after an attempt: what is said until the next one ends has the rest.
GOES_ON_BYTES = 40 << 10
MESSAGE_BYTES = 2048
END_BYTES = 128  # of texts that are cut
LAST_BYTES = 256  # of a message where nothing else has helped
FEW = 8  # ranks, nodes
FEW_FAILURES = 5
NEWEST = 3  # attempts
NAMES = ("number", "job", "verdict", "reason", "charged", "startTime", "completionTime", "report")  # of an attempt

Status = Mapping[str, Any]
Row = dict[str, Any]
Trim = Callable[[Status], dict[str, Any]]  # what is to stand in place of some of its fields


def finished(status: Status, before: Status) -> dict[str, Any]:
    """A terminal status that is written over `before`. Numbers stay: the totals are made of them."""
    return _fit(status, before, STATUS_BYTES, OF_THE_END)


def between_attempts(status: Status, before: Status) -> dict[str, Any]:
    """What later attempts are decided by stays as long as it can."""
    return _fit(status, before, GOES_ON_BYTES, OF_ATTEMPTS)


def size(value: Mapping[str, Any]) -> int:
    """Bytes, at least as many as the API server makes of it: it spells out `<`, `>` and `&`."""
    text = json.dumps(value)
    return len(text) + 5 * sum(map(text.count, "<>&"))


def _fit(status: Status, before: Status, limit_bytes: int, trims: Sequence[tuple[str, Trim]]) -> dict[str, Any]:
    """Each trim on top of the ones before it. What it changes of `before` is written too."""
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
    words = f"(too long for the status, see the report: {', '.join(dict.fromkeys(missing))})"
    return f"{limits.cut(status['message'], MESSAGE_BYTES)} {words}"


def _rows(status: Status, key: str, change: Callable[[Row], Row]) -> dict[str, Any]:
    return {key: [change(dict(row)) for row in status[key]]} if status.get(key) else {}


def _cut(row: Row, key: str, limit_bytes: int = END_BYTES) -> Row:
    return row | {key: limits.cut(row[key], limit_bytes)} if row.get(key) else row


def _few(row: Row, *keys: str) -> Row:
    return row | {key: row[key][:FEW] for key in keys if row.get(key)}


def _without(row: Row, *keys: str) -> Row:
    return {name: value for name, value in row.items() if name not in keys}


def _attempt_without_ends(row: Row) -> Row:
    row = _cut(row, "message")
    return row | {"firstFailure": _cut(dict(row["firstFailure"]), "message")} if row.get("firstFailure") else row


def _oldest_nodes(status: Status) -> dict[str, Any]:
    """Of half of the attempts that have any; part of the nodes of one would be taken for all of them."""
    rows = [dict(row) for row in status.get("attempts") or ()]
    named = [row for row in rows if row.get("nodes")]
    for row in named[: (len(named) + 1) // 2]:
        del row["nodes"]
    return {"attempts": rows} if named else {}


def _oldest_failures(status: Status) -> dict[str, Any]:
    """Two in a row may be told from an accident by them."""
    rows = status.get("attempts") or ()
    older, newest = rows[:-NEWEST], rows[-NEWEST:]
    return {"attempts": [*(_without(dict(row), "firstFailure") for row in older), *newest]}


def _measured_against(status: Status) -> dict[str, Any]:
    rows = status.get("bandwidth") or ()
    return {"bandwidth": [row for row in rows if row.get("threshold")]} if rows else {}


def _last(status: Status) -> dict[str, Any]:
    return {
        "message": limits.cut(status["message"], LAST_BYTES),
        **_rows(status, "conditions", lambda row: _cut(row, "message", LAST_BYTES)),
    }


OF_THE_END: tuple[tuple[str, Trim], ...] = (
    ("nodes of attempts but a few", lambda status: _rows(status, "attempts", lambda row: _few(row, "nodes"))),
    (
        "ranks and nodes of failures but a few",
        lambda status: _rows(status, "failures", lambda row: _few(row, "ranks", "nodes")),
    ),
    (
        "ends of messages of suites and attempts",
        lambda status: (
            _rows(status, "suites", lambda row: _cut(row, "message")) | _rows(status, "attempts", _attempt_without_ends)
        ),
    ),
    ("ends of failures' messages", lambda status: _rows(status, "failures", lambda row: _cut(row, "message"))),
    ("bandwidth without a threshold", _measured_against),
    (
        f"failures but the first {FEW_FAILURES}",
        lambda status: {"failures": status["failures"][:FEW_FAILURES]} if status.get("failures") else {},
    ),
    ("bandwidth", lambda status: {"bandwidth": []} if status.get("bandwidth") else {}),
    (
        "details of attempts",
        lambda status: _rows(status, "attempts", lambda row: {key: row[key] for key in NAMES if key in row}),
    ),
    (
        "messages of suites, evidence against nodes",
        lambda status: (
            _rows(status, "suites", lambda row: _without(row, "message"))
            | _rows(status, "suspectNodes", lambda row: _without(row, "evidence"))
        ),
    ),
    ("failures", lambda status: {"failures": []} if status.get("failures") else {}),
    ("ends of sentences", _last),
)
OF_ATTEMPTS: tuple[tuple[str, Trim], ...] = (
    ("ends of messages of attempts", lambda status: _rows(status, "attempts", _attempt_without_ends)),
    ("evidence against nodes", lambda status: _rows(status, "suspectNodes", lambda row: _cut(row, "evidence"))),
    ("nodes of attempts", _oldest_nodes),
    ("nodes of attempts", _oldest_nodes),
    ("nodes of attempts", _oldest_nodes),
    ("nodes of attempts", _oldest_nodes),
    ("ends of sentences", _last),
    ("evidence against nodes", lambda status: _rows(status, "suspectNodes", lambda row: _without(row, "evidence"))),
    ("first failures of attempts", _oldest_failures),
)
