"""Whether a report is of a size that its readers take: by what it costs them, not only by what it weighs."""

import re
from collections.abc import Iterator
from typing import Any

from disttest_contract import limits
from disttest_contract.text import formatting

WIDEST = re.compile(rb"[\xf0-\xf4]")  # begins a character for which Python gives every one of the text four bytes
CONTINUED = bytes(range(0x80, 0xC0))  # what of UTF-8 begins no character


def of_text(raw: bytes) -> str:
    """What is too large, in words; of UTF-8 that is not read yet."""
    if len(raw) > limits.REPORT_BYTES:
        return f"has {len(raw)} bytes, more than {limits.REPORT_BYTES}"
    if (size := _text_bytes(raw)) > limits.REPORT_BYTES:
        return f"has {size} bytes as a text with characters of their width, more than {limits.REPORT_BYTES}"
    if (count := values(raw)) > limits.REPORT_VALUES:
        return f"has {count} commas and brackets, more than {limits.REPORT_VALUES}"
    return ""


def of_cases(report: Any) -> str:
    """The same of its JSON. Raises what wrong types raise."""
    if (cases := sum(len(suite["cases"]) for suite in report["suites"])) > limits.CASES:
        return f"has {cases} cases, more than {limits.CASES}: make several runs"
    if (named := sum(map(formatting.count_ranks, _groups(report)))) > limits.REPORT_RANKS:
        return f"names {named} ranks in byRank, more than {limits.REPORT_RANKS}"
    return ""


def values(raw: bytes) -> int:
    return sum(map(raw.count, (b",", b"[", b"{")))


def _text_bytes(raw: bytes) -> int:
    if raw.isascii():
        return len(raw)
    characters = len(raw.translate(None, CONTINUED))
    return characters * (4 if WIDEST.search(raw) else 2)


def _groups(report: Any) -> Iterator[str]:
    every = (case for suite in report["suites"] for case in suite["cases"])
    return (group["ranks"] for case in every for group in case.get("byRank", ()))
