"""What came of a collection of cases, and what tells one from another. Pure."""

import re
from pathlib import Path

from disttest_contract import gist

EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning)\b")
SHOWN = 5  # cases named in a sentence


def cause(text: str) -> str:
    """The line of pytest's text on a failure that says most: the exception, or the last line."""
    marked = gist.marked(text)
    lines = marked or [line.strip() for line in text.splitlines() if line.strip()]
    return next(filter(EXCEPTION.match, lines), lines[0 if marked else -1] if lines else "no reason was given")


def prefix(folder: str, root: Path) -> str:
    """What ids begin with that are relative to `root`, and not to the folder below it."""
    if not folder or not Path(folder).is_relative_to(root) or Path(folder) == root:
        return ""
    return f"{Path(folder).relative_to(root).as_posix()}/"


def difference(ids: tuple[str, ...], others: tuple[str, ...]) -> str:
    """What two collections do not share, or where their order parts."""
    ours, theirs = set(ids), set(others)
    lacking = [case_id for case_id in ids if case_id not in theirs]
    extra = [case_id for case_id in others if case_id not in ours]
    parts = [f"{word} {_some(cases)}" for word, cases in (("without", lacking), ("with", extra)) if cases]
    if parts:
        return "; ".join(parts)
    pairs = enumerate(zip(ids, others, strict=False))
    place = next((number for number, (one, other) in pairs if one != other), min(len(ids), len(others)))
    return f"the same cases in another order, from number {place + 1} on"


def _some(cases: list[str]) -> str:
    more = f" and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
    return ", ".join(cases[:SHOWN]) + more
