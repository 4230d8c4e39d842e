"""The quarantine: patterns of cases that are known to fail. They run, are counted separately and fail no run."""

from collections.abc import Iterable, Mapping
from typing import Any

from disttest_contract import limits
from disttest_contract.text.formatting import listed

WILDCARD = "*"  # the only one: brackets of parametrized cases, dots and question marks are literal
COMMENT = "#"
SHOWN = 10  # names in a sentence

Lists = Mapping[str, tuple[str, ...]]  # suite -> patterns
NOTHING: Lists = {}


class InvalidListError(ValueError):
    """The list is invalid; the message names the line and how to correct it."""


def read(config_map: Mapping[str, Any], suites: Iterable[str]) -> Lists:
    """Parse a ConfigMap: each key is the name of a suite, its value has one pattern per line."""
    known = tuple(suites)
    if binary := sorted(config_map.get("binaryData") or {}):
        raise InvalidListError(f"key {binary[0]!r} is not UTF-8 text. Write one case ID per line")
    found = {}
    for suite, text in (config_map.get("data") or {}).items():
        if suite not in known:
            raise InvalidListError(f"key {suite!r} is not a suite of this run. Its suites: {listed(known, SHOWN)}")
        if not isinstance(text, str):
            raise InvalidListError(f"key {suite!r} is not text. Write one case ID per line")
        found[suite] = _patterns(suite, text)
    return {suite: patterns for suite, patterns in found.items() if patterns}


def _patterns(suite: str, text: str) -> tuple[str, ...]:
    """Return each pattern once, without empty lines and comments."""
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    patterns = [(number, line) for number, line in lines if line and not line.startswith(COMMENT)]
    for number, pattern in patterns:
        if problem := _problem(pattern):
            raise InvalidListError(f"key {suite!r}, line {number}: {problem}")
    unique = tuple(dict.fromkeys(pattern for _, pattern in patterns))
    if len(unique) > limits.QUARANTINED:
        raise InvalidListError(
            f"key {suite!r} has {len(unique)} lines, more than {limits.QUARANTINED}. "
            f"Combine lines with {WILDCARD}, or remove the suite from the run"
        )
    return unique


def _problem(pattern: str) -> str:
    if len(pattern.encode(errors="replace")) > limits.CASE_ID_BYTES:
        return f"the line is longer than {limits.CASE_ID_BYTES} bytes. Replace a part of the case ID by {WILDCARD}"
    if not pattern.isprintable():
        return f"{pattern[:40]!r} has characters that are not printable. Copy the case ID from the report"
    if not pattern.strip(WILDCARD):
        return f"{pattern!r} matches every case. Remove the suite from the run instead"
    return ""


class Matcher:
    """The patterns of one suite. Matching takes time linear in the length of a case's id, whatever the patterns are."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._globs: dict[str, tuple[str, ...]] = {}
        self._ids = set()
        for pattern in patterns:
            if WILDCARD in pattern:
                self._globs[pattern] = tuple(pattern.split(WILDCARD))
            else:
                self._ids.add(pattern)

    def has(self, case_id: str) -> bool:
        return case_id in self._ids or any(_fits(case_id, parts) for parts in self._globs.values())

    def which(self, case_id: str) -> list[str]:
        """Return all patterns that match this case."""
        exact = [case_id] if case_id in self._ids else []
        return exact + [pattern for pattern, parts in self._globs.items() if _fits(case_id, parts)]


def _fits(case_id: str, parts: tuple[str, ...]) -> bool:
    """Whether the parts occur in this order: the first place is always the best one, so there is no backtracking."""
    first, *middle, last = parts
    if len(case_id) < len(first) + len(last) or not case_id.startswith(first) or not case_id.endswith(last):
        return False
    here, end = len(first), len(case_id) - len(last)
    for part in middle:
        here = case_id.find(part, here, end)
        if here < 0:
            return False
        here += len(part)
    return True
